"""Texts to look at."""

from identiformer.texts.passage import PASSAGE

__all__ = ["PASSAGE"]
