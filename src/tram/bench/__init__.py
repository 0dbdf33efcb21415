"""Speed and memory of tram as ratios to a peer, measured in turn in one run."""
