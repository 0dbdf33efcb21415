"""Conversion of weights and tokenisers of other toolkits to tram model folders, and back."""
