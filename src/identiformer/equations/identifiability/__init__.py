"""Recovering input tokens from hidden vectors. §4."""
