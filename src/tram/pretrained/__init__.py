"""Weights and tokenisers of other programs, converted to tram model folders."""
