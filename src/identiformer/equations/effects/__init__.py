"""The effect of attention weights on what a model outputs: first order, with its error, and what can be removed at once."""
