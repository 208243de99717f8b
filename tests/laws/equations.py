"""All functions of `identiformer.equations`, and small arguments of each."""

import importlib
import inspect
import pkgutil

import numpy as np
import torch

from identiformer import equations
from identiformer.equations import FeasibleSet, Visibility


def public_equations():
    """The functions of `identiformer.equations`, and all others in it that take tensors and NumPy arrays."""
    named = {name: getattr(equations, name) for name in equations.__all__ if inspect.isfunction(getattr(equations, name))}
    for module in pkgutil.walk_packages(equations.__path__, f"{equations.__name__}."):
        members = vars(importlib.import_module(module.name))
        named |= {name: each for name, each in members.items() if hasattr(each, "floating_parameters")}
    return named


def _row():
    return np.array([0.5, 0.3, 0.2])


def _feasible() -> FeasibleSet:
    weights, values = torch.tensor(_row())[None], torch.tensor([[0.0], [1.0], [2.0]]).double()
    return next(iter(equations.feasible_sets(weights, values, tolerance=0.0)))[2]


WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]], dtype=torch.float64)
VALUES = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
SHARES = WEIGHTS[None]
NUMBERS = torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
MAP = {"weights": WEIGHTS, "values": VALUES}
STACKED = {"weights": WEIGHTS[None], "values": VALUES[None]}
GRADED = {**STACKED, "gradients": SHARES[..., :2]}
COUNTS = torch.tensor([[1, 1]])

ARGUMENTS = {
    "attention_squared_norms": {
        "queries": NUMBERS[None],
        "keys": NUMBERS[None],
        "scaling": 1.0,
        "visible": Visibility.full(3, 3),
    },
    "average_precision": {"scores": NUMBERS, **dict.fromkeys(("relevant", "candidate"), NUMBERS > 0)},
    "cascade": {"weights": WEIGHTS, "low": WEIGHTS, "contribution_low": WEIGHTS, "self_contribution": WEIGHTS},
    "certify_argmax": {"feasible": _feasible, "low": _row(), "high": _row()},
    "contribution": {"norms": SHARES},
    "contribution_bounds": {
        **dict.fromkeys(("low", "high", "per_weight", "relative_length"), WEIGHTS),
        "tolerance": 1e-4,
    },
    "contribution_by_distance": {"shares": SHARES, "targets": torch.arange(2)},
    "contribution_by_neighbors": {"shares": SHARES, "targets": torch.arange(2)},
    "contribution_error": {"shares": SHARES, "variance": SHARES},
    "contribution_interval": {"shares": SHARES, "variance": SHARES, "degrees": SHARES[0, 0]},
    "contributions": STACKED,
    "removed_effects": GRADED,
    "renormalized_effects": GRADED,
    "squared_effects": {**GRADED, "gradients": SHARES[..., :2][None]},
    "correlation": {
        **dict.fromkeys(("raw_squared_norm", "effective_squared_norm", "raw_sum", "effective_sum"), WEIGHTS[:1, :2]),
        "nullity": COUNTS,
        "visible_keys": COUNTS[0],
    },
    "cosine_distance": {"first": NUMBERS, "second": NUMBERS.flip(0)},
    "distribution_error": {"error": SHARES},
    "effective_attention": MAP,
    "estimate_norms": {
        "mean": NUMBERS,
        "spread": NUMBERS,
        "directions": torch.full((3,), 2),
        "own": torch.eye(3, dtype=torch.bool),
        "width": 4,
    },
    "factor_outputs": {"outputs": WEIGHTS[None] @ VALUES, "values": VALUES[None]},
    "factor_weights": {**STACKED, "visible": Visibility.full(2, 3)},
    "farthest_alternative": {"feasible": _feasible},
    "feasible_sets": {**MAP, "tolerance": 1e-4},
    "mean_norms": {"weights": SHARES, "vectors": VALUES[None]},
    "normalized_rows": {"scores": WEIGHTS},
    "proximity": {
        "weights": NUMBERS[None],
        "transformed": VALUES[None],
        "residual": VALUES,
        "outputs": VALUES,
    },
    "summed_norms": {"weights": NUMBERS[None], "transformed": VALUES[None], "residual": VALUES},
    "with_own_norms": {"norms": NUMBERS, "weights": NUMBERS[None], "transformed": VALUES[None], "residual": VALUES},
    "transformed_values": {"values": VALUES[None], "projection": NUMBERS[None, :2]},
    "with_residual": {"weights": NUMBERS},
    "without_keys": {"weights": WEIGHTS, "removed": torch.tensor([True, False, False])},
    "full_row_rank": {"projection": NUMBERS[None]},
    "head_contributions": STACKED,
    "head_output_shares": STACKED,
    "is_sink": dict.fromkeys(("weights", "contribution", "norm_share"), WEIGHTS),
    "key_constrained": {**MAP, "keys": NUMBERS, "scaling": 1.0},
    "layer_contributions": STACKED,
    "layer_nullity": {"values": VALUES[None], "projection": NUMBERS[None, :2]},
    "left_null_space": {"values": VALUES},
    "leverage": {"values": VALUES[None]},
    "main_contributor_certain": {"shares": SHARES, "variance": SHARES, "degrees": SHARES[0, 0]},
    "map_bounds": MAP,
    "maximum_entropy_attention": MAP,
    "minimum_norm_attention": MAP,
    "null_alternative": {"feasible": _feasible},
    "null_attention": MAP,
    "null_mass": {"raw_squared_norm": WEIGHTS[0] + 1, "effective_squared_norm": WEIGHTS[0]},
    "numerical_rank": {"values": VALUES},
    "pattern_shares": {
        "weights": WEIGHTS[None],
        "visible": Visibility.full(2, 3),
        "separators": WEIGHTS[1] > 0.5,
    },
    "projection_root": {"projection": NUMBERS[None]},
    "recover_from_vocabulary": {
        "predicted": NUMBERS,
        "table": NUMBERS,
        "offsets": NUMBERS[:1],
        "offset_index": torch.zeros(3, dtype=torch.int64),
        "ids": torch.arange(3),
        "metric": "cosine",
    },
    "recover_tokens": {
        "predicted": NUMBERS,
        "candidates": NUMBERS,
        "target": torch.arange(3),
        "starts": torch.tensor([0, 3]),
        "metric": "cosine",
    },
    "row_correlation": {"first": NUMBERS, "second": NUMBERS.flip(0), "visible": torch.ones(3, 3, dtype=torch.bool)},
    "row_ranks": {"scores": NUMBERS, "visible": torch.ones(3, 3, dtype=torch.bool)},
    "row_rank_correlation": {"first": NUMBERS, "second": NUMBERS.flip(0), "visible": torch.ones(3, 3, dtype=torch.bool)},
    "set_contribution_bounds": {"feasible": _feasible, "members": np.array([True, False, False])},
    "singular_values": {"values": VALUES},
    "soft_attention": MAP,
    "undecided_sources": {"shares": SHARES, "variance": SHARES, "degrees": SHARES[0, 0], "tolerance": 0.1},
    "sparsest_alternative": {"feasible": _feasible},
    "sum_preserving_attention": MAP,
    "top_share": {"scores": NUMBERS, **dict.fromkeys(("relevant", "candidate"), NUMBERS > 0)},
    "total_variation": {"first": _row(), "second": _row()},
    "total_variation_bound": {"feasible": _feasible, "low": _row(), "high": _row()},
    "weight_intervals": MAP,
}


def arguments(name):
    return {key: value() if callable(value) else value for key, value in ARGUMENTS[name].items()}
