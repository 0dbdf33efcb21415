"""Corpora: documents and their formats, statistics, preparation, prepared arrays and batches."""
