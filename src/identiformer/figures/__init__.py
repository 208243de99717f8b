"""Figures: from a Dataset to matplotlib axes, without computing."""

from identiformer.figures.ambiguity import draw_intervals
from identiformer.figures.effective_attention import draw_attention_maps, draw_layer_summary
from identiformer.figures.token_attribution import (
    draw_contribution_by_distance,
    draw_contribution_by_neighbours,
    draw_self_contribution,
    draw_token_attribution,
)

__all__ = [
    "draw_attention_maps",
    "draw_contribution_by_distance",
    "draw_contribution_by_neighbours",
    "draw_intervals",
    "draw_layer_summary",
    "draw_self_contribution",
    "draw_token_attribution",
]
