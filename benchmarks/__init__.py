"""How fast things are, as ratios against what a user would otherwise run, measured side by side in one run."""
