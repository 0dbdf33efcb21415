"""tram: translation of whole documents with a small recurrent memory."""

__version__ = "0.1.0"
