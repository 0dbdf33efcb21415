"""Small training documents composed of real sentences, in which context decides the translation."""
