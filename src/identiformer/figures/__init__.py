"""Figures: from a Dataset to matplotlib axes, without computing."""

from identiformer.figures.attention import draw_attention_maps, draw_intervals, draw_layer_summary
from identiformer.figures.corpus import (
    draw_between_separators,
    draw_correlation_by_length,
    draw_first_token,
    draw_received_by_kind,
    draw_self_contribution_by_tag,
    draw_self_contribution_quantiles,
)
from identiformer.figures.reading import draw_cascade, draw_readable_map
from identiformer.figures.saving import save_identifiability_figures
from identiformer.figures.style import draw_over_layers
from identiformer.figures.token_attribution import (
    draw_contribution_by_distance,
    draw_contribution_by_neighbors,
    draw_self_contribution,
    draw_token_attribution,
)
from identiformer.figures.token_identifiability import (
    draw_learning_curve,
    draw_token_identifiability,
    draw_token_neighbors,
    draw_token_transfer,
    draw_train_and_test,
)
from identiformer.figures.tolerance import draw_tolerance

__all__ = [
    "draw_attention_maps",
    "draw_between_separators",
    "draw_cascade",
    "draw_contribution_by_distance",
    "draw_contribution_by_neighbors",
    "draw_correlation_by_length",
    "draw_first_token",
    "draw_intervals",
    "draw_layer_summary",
    "draw_learning_curve",
    "draw_over_layers",
    "draw_readable_map",
    "draw_received_by_kind",
    "draw_self_contribution",
    "draw_self_contribution_by_tag",
    "draw_self_contribution_quantiles",
    "draw_token_attribution",
    "draw_token_identifiability",
    "draw_token_neighbors",
    "draw_token_transfer",
    "draw_tolerance",
    "draw_train_and_test",
    "save_identifiability_figures",
]
