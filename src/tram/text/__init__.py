"""Strings to ids and back, without torch."""
