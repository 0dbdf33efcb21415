"""The Transformer: packing, attention, layers, carried state and model folders."""
