"""Engines compute translations behind one interface: `base` is the contract, `torch` the reference; `choice` chooses."""
