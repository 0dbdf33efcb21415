"""The split between training and probes, defined in `tram.text.held_out`, which evaluation can import too."""

from tram.text.held_out import held_out_noun, held_out_sentence

__all__ = ["held_out_noun", "held_out_sentence"]
