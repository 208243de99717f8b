"""Figures: from a Dataset to matplotlib axes, without computing."""

from identiformer.figures.ambiguity import draw_intervals
from identiformer.figures.effective_attention import draw_attention_maps, draw_layer_summary

__all__ = ["draw_attention_maps", "draw_intervals", "draw_layer_summary"]
