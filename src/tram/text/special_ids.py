"""Special ids."""

PAD, BOS, EOS = 0, 1, 2
