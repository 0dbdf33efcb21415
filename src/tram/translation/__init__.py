"""Search, lockstep decoding of documents, `Translator` and `DocumentState`."""
