"""The schema of results: names of axes and variables, and the attributes that record where a result came from."""

from collections.abc import Iterable
from typing import Any

SCHEMA_VERSION = 3

REQUIRED_ATTRIBUTES = ("measure", "schema_version", "model", "revision", "settings", "complete", "identiformer_version")

LAYER_HEAD = ("layer", "head")
MAP = (*LAYER_HEAD, "query", "key")
LAYER_TARGET_SOURCE = ("layer", "target", "source")
PROBE_LAYER = ("probe", "layer")  # not "method", which is a parameter of xarray's sel
RATES = ("rate", "rate_sd", "rate_low", "rate_high")


AMBIGUITY: dict[str, tuple[str, ...]] = {
    "raw": ("query", "key"),
    "low": ("query", "key"),
    "high": ("query", "key"),
    "low_reached": ("query", "key"),
    "high_reached": ("query", "key"),
    "confirmed": ("query", "key"),
    **dict.fromkeys(("contribution", "contribution_low", "contribution_high", "norm_share"), ("query", "key")),
    **dict.fromkeys(("set_contribution", "set_contribution_low", "set_contribution_high"), ("set", "query")),
    "set_low": ("set", "query"),
    "set_high": ("set", "query"),
    "set_low_reached": ("set", "query"),
    "set_high_reached": ("set", "query"),
    "set_confirmed": ("set", "query"),
    "largest": ("query",),
    "argmax_certified": ("query",),
    "rival": ("query",),
    "ranking_certified": ("query",),
    "dimension": ("query",),
    "gap": ("query",),
    "total_variation_low": ("query",),
    "total_variation_high": ("query",),
    "alternatives": ("alternative", "query", "key"),
    "total_variation": ("alternative", "query"),
    "output_change": ("alternative", "query"),
    "support": ("alternative", "query"),
}
OUTPUT_CHANGE: dict[str, tuple[str, ...]] = dict.fromkeys(("patched", "control", "floor", "scale"), ())


def estimated(name: str, dims: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """A mean over examples and the ends of its interval."""
    return dict.fromkeys((name, f"{name}_low", f"{name}_high"), dims)


VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "effective_attention": {
        "raw": (*LAYER_HEAD, "query", "key"),
        "effective": (*LAYER_HEAD, "query", "key"),
        "null": (*LAYER_HEAD, "query", "key"),
        "rank": (*LAYER_HEAD, "query"),
        "nullity": (*LAYER_HEAD, "query"),
        "row_null_mass": (*LAYER_HEAD, "query"),
        "null_mass": LAYER_HEAD,
        "pooled_null_mass": LAYER_HEAD,
        "correlation": LAYER_HEAD,
        "leverage": (*LAYER_HEAD, "key"),
        "raw_received": (*LAYER_HEAD, "key"),
        "effective_received": (*LAYER_HEAD, "key"),
        "singular_values": (*LAYER_HEAD, "component"),
        "gap": LAYER_HEAD,
    },
    "ambiguity": AMBIGUITY,
    "certify_head": {
        **AMBIGUITY,
        **dict.fromkeys(("rows", "rows_certified", "rows_key_constrained", "layer_nullity", "heads_nullity"), ()),
        **dict.fromkeys(("patched_alternative", "patched_total_variation"), ()),
        **OUTPUT_CHANGE,
    },
    "sink_effects": dict.fromkeys(
        ("rows", "removed_change", "predicted_scale", "measured_scale", "removed_output", "redistributed_output"), ()
    ),
    "move_weight": {
        **dict.fromkeys(("amount", "head_change", "tolerance", "alternative"), ()),
        **OUTPUT_CHANGE,
        **dict.fromkeys(("token_before", "probability_before", "token_after", "probability_after"), ("position", "rank")),
        "total_variation": ("position",),
    },
    "attention_reading": {
        **dict.fromkeys(("weight", "low", "high", "contribution", "contribution_low", "contribution_high"), MAP),
        **dict.fromkeys(("norm_share", "contributing_weight", "readable_weight", "category", "low_solved", "high_solved"), MAP),
        **dict.fromkeys(("self_contribution", "self_contribution_error"), ("layer", "key")),
        "contributing_by_key": (*LAYER_HEAD, "key"),
        **dict.fromkeys(("certified", "contributing", "readable", "output_share"), LAYER_HEAD),
        **dict.fromkeys(("sink_share", "sink_scale", "sink_key"), LAYER_HEAD),
        **dict.fromkeys(("top_key", "top_weight", "top_contribution", "zero_rows", "bounded", "largest_certified"), LAYER_HEAD),
    },
    "weight_effects": {
        **dict.fromkeys(("weight", "effect", "effect_renormalized", "effect_low", "effect_high", "exact"), MAP),
        **dict.fromkeys(("interval_factor", "largest_exact", "sampled"), ("stratum",)),
        "rounding": (),
    },
    "idle_attention": {
        **dict.fromkeys(("share", "change", "runs"), ("order",)),
        **dict.fromkeys(("share_by_head", "weight_by_head"), LAYER_HEAD),
        **dict.fromkeys(("idle",), MAP),
        **dict.fromkeys(("budget", "matched_change"), ()),
    },
    "strongest_weights": {
        **dict.fromkeys(("layer", "head", "query", "key", "query_token", "key_token", "key_special", "raw"), ("weight",)),
        **dict.fromkeys(("low", "high", "effect", "first_order", "constant", "token", "context", "part"), ("weight",)),
        "head_effect": ("head_layer", "head_number"),
        "rounding": (),
    },
    "value_parts": {
        **dict.fromkeys(("constant", "token", "context"), MAP),
        "part": MAP,
    },
    "attention_patterns": {"share": ("pattern", *LAYER_HEAD), "dominant": LAYER_HEAD},
    "certified_share": {"certified": LAYER_HEAD, "width": LAYER_HEAD},
    "attention_identifiability": {
        "rank": ("head", "query"),
        "nullity": ("head", "query"),
        "simplex_nullity": ("head", "query"),
        "heads_nullity": ("query",),
        "layer_nullity": ("query",),
        "key_constrained_identifiable": ("head", "query"),
        "key_constrained_smallest": ("head", "query"),
        "key_constrained_dimension": ("head", "query"),
        "key_constrained_condition": ("head", "query"),
    },
    "token_attribution": {
        "contribution": LAYER_TARGET_SOURCE,
        "error": LAYER_TARGET_SOURCE,
        "low": LAYER_TARGET_SOURCE,
        "high": LAYER_TARGET_SOURCE,
        "self_contribution": ("layer", "target"),
        "main_contributor": ("layer", "target"),
        "main_contributor_certain": ("layer", "target"),
        "distribution_error": ("layer", "target"),
        "by_distance": ("layer", "distance"),
        "by_neighbors": ("layer", "group"),
        "set_contribution": ("set", "layer", "target"),
        "set_error": ("set", "layer", "target"),
        "directions": ("source",),
        "head_contribution": (*LAYER_HEAD, "target", "source"),
        "head_error": (*LAYER_HEAD, "target", "source"),
        "raw_agreement": (*LAYER_HEAD, "target"),
        "effective_agreement": (*LAYER_HEAD, "target"),
    },
    "value_zeroing": {
        "effect": LAYER_TARGET_SOURCE,
        **dict.fromkeys(("raw_agreement", "effective_agreement", "contribution_agreement"), ("layer", "target")),
    },
    "maps": {
        "score": ("map", "layer", "query", "key"),
        "zero_rows": ("map", "layer"),
        "importance": ("explanation", "source"),
    },
    "faithfulness": {
        **dict.fromkeys(("score", "spearman_score", "signed_score"), ("map", "yardstick", "layer")),
        **dict.fromkeys(("explanation_score", "explanation_absolute_score"), ("explanation", "explanation_yardstick")),
        "equal_to_raw": ("map", "layer"),
        "rank": ("layer",),
        "tokens": (),
    },
    "answer_attribution": {
        **dict.fromkeys(("attribution", "share", "error", "low", "high"), ("step", "source")),
        **dict.fromkeys(("value", "probability"), ("step",)),
        "set_share": ("set", "step"),
    },
    "gradient_times_input": {"attribution": ("source",), "gradient_norm": ("source",), "value": ()},
    "attention_variants": {
        "sum_error": ("variant",),
        "negative_share": ("variant",),
        "squared_norm": ("variant",),
        "entropy": ("variant",),
        "total_variation": ("variant",),
        "correlation_with_raw": ("variant",),
        "correlation_with_effective": ("variant",),
        "output_error": ("variant",),
        "undecided_rows": ("variant",),
    },
    "corpus_texts": {"examples": (), "tokens": (), "cut": (), "long_words": (), "pairs": (), "lengths": ("length",)},
    "corpus_effective_attention": {
        **dict.fromkeys(("null_mass", "pooled_null_mass", "correlation", "correlation_count", "rank", "nullity"), LAYER_HEAD),
        **dict.fromkeys(("raw_from_others", "raw_from_separators", "effective_from_others"), LAYER_HEAD),
        **dict.fromkeys(("effective_from_separators", "null_space_share", "negative_share"), LAYER_HEAD),
        "raw_received": (*LAYER_HEAD, "kind"),
        "effective_received": (*LAYER_HEAD, "kind"),
        "correlation_by_length": ("length",),
        "texts_by_length": ("length",),
    },
    "corpus_attention_identifiability": dict.fromkeys(
        ("rank", "nullity", "simplex_nullity", "identified", "identified_on_simplex", "rows"), LAYER_HEAD
    ),
    "corpus_token_attribution": {
        "self_contribution_quantiles": ("quantile", "layer"),
        "quantile_error": (),
        **dict.fromkeys(("self_contribution", "distribution_error", "not_own_main", "certainly_not_own_main"), ("layer",)),
        "tokens": ("layer",),
        "by_distance": ("layer", "distance"),
        "by_neighbors": ("layer", "group"),
        "cls_by_position": ("layer", "position"),
        "cls_from_separator": ("layer", "distance"),
    },
    "corpus_self_contribution_by_tag": {
        "self_contribution_quantiles": ("quantile", "layer", "tag"),
        "quantile_error": (),
        "self_contribution": ("layer", "tag"),
        "tokens": ("tag",),
    },
    "corpus_ambiguity": {
        **dict.fromkeys(("rows", "certified", "dimension", "width"), ("layer",)),
        "width_quantiles": ("quantile", "layer"),
        "quantile_error": (),
    },
    "corpus_reading": {
        **dict.fromkeys(("certified", "contributing", "readable", "output_share", "sink_share", "sink_scale"), LAYER_HEAD),
        **dict.fromkeys(("sink_heads", "texts", "rows"), LAYER_HEAD),
    },
    "corpus_faithfulness": {
        **estimated("score", ("map", "yardstick")),
        **estimated("difference", ("map", "yardstick")),
        **estimated("spearman_score", ("map", "yardstick")),
        **estimated("signed_score", ("map", "yardstick")),
        **estimated("layer_score", ("map", "yardstick", "layer")),
        **estimated("explanation_score", ("explanation", "explanation_yardstick")),
        **estimated("explanation_absolute_score", ("explanation", "explanation_yardstick")),
        "score_examples": ("map", "yardstick"),
        "explanation_score_examples": ("explanation", "explanation_yardstick"),
        "example_score": ("example", "map", "yardstick"),
        "example_explanation_score": ("example", "explanation", "explanation_yardstick"),
        "equal_to_raw": ("map", "layer"),
        "tokens": ("example",),
        "rank": ("example", "layer"),
        "short_share": (),
    },
    "token_identifiability": {
        **dict.fromkeys(RATES, PROBE_LAYER),
        "resplit_rate": (*PROBE_LAYER, "resplit"),
        "train_rate": PROBE_LAYER,
        "strict": PROBE_LAYER,
        "lenient": PROBE_LAYER,
        "vocabulary": PROBE_LAYER,
        "ties": PROBE_LAYER,
        "type_rate": (*PROBE_LAYER, "type"),
        "frequency_rate": (*PROBE_LAYER, "frequency"),
        "random_rate": (),
        "type_tokens": ("type",),
        "frequency_tokens": ("frequency",),
    },
    "token_transfer": {**dict.fromkeys(RATES, ("probe", "trained", "layer")), "random_rate": ()},
    "token_steps": {**dict.fromkeys(RATES, PROBE_LAYER), "random_rate": ()},
    "token_neighbors": {**dict.fromkeys(RATES, (*PROBE_LAYER, "offset")), "random_rate": ()},
    "learning_curve": {**dict.fromkeys(RATES, (*PROBE_LAYER, "share")), "random_rate": ()},
    "rank_by_length": {
        **dict.fromkeys(("rank", "certified"), ("variant", "length", "layer", "head")),
        "layer_nullity": ("variant", "length", "layer"),
    },
    "key_conditioning": dict.fromkeys(("condition", "smallest", "identifiable"), ("key_width",)),
    "attention_by_kind": {
        "share": ("component", *LAYER_HEAD, "kind"),
        "pattern_share": ("component", *LAYER_HEAD, "pattern"),
    },
    "padding_recipe": dict.fromkeys(("output_change", "correlation", "true_correlation", "tokens"), LAYER_HEAD),
    "head_patterns": {
        "pattern_share": ("component", *LAYER_HEAD, "pattern"),
        "agreement": LAYER_HEAD,
        "near": ("component", *LAYER_HEAD),
    },
    "variant_accuracy": {
        "accuracy": ("variant", "seed"),
        "parameters": ("variant",),
        **dict.fromkeys(("difference", "difference_low", "difference_high", "majority"), ()),
    },
}

CORPUS_MEASURES = tuple(name.removeprefix("corpus_") for name in VARIABLES if name.startswith("corpus_"))
"""The names of measures over a corpus."""


def middle_layer(layers: Iterable[Any]) -> int:
    """The layer in the middle; the lower of the two where their number is even, as 6 of 12."""
    ordered = sorted(map(int, layers))
    return ordered[(len(ordered) - 1) // 2]


def first_middle_last(layers: Iterable[Any], *, second_last: bool = False) -> list[int]:
    """The layers to show where there is no room for all of them.

    >>> first_middle_last(range(1, 13)), first_middle_last(range(1, 13), second_last=True)
    ([1, 6, 12], [1, 6, 11, 12])
    """
    ordered = sorted(map(int, layers))
    chosen = {ordered[0], middle_layer(ordered), ordered[-1]}
    return sorted(chosen | set(ordered[-2:] if second_last else ()))
