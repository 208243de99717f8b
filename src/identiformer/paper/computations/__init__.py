"""The computations that the figures show."""
