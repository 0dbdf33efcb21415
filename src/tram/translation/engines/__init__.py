"""What computes translations, behind one interface: `base` is the contract, `torch` the reference; see `choice`."""
