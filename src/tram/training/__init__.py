"""Training runs: stages, loss, optimisers, checkpoints and the log."""
