"""Scores of translations: BLEU, chrF, significance, perplexity and contrastive suites."""
