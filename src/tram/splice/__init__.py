"""Small training documents put together from real sentences, in which context decides the translation."""
