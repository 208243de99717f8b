"""Names that a user chooses from, and checks of a choice. They need no torch, so that a wrong name is answered at once."""

from collections.abc import Sequence

from identiformer.errors import InputError

MEASURES = (
    *("texts", "effective_attention", "attention_identifiability", "token_attribution", "self_contribution_by_tag", "ambiguity"),
    *("reading", "faithfulness"),
)
CHEAP_MEASURES = MEASURES[:3]
"""Those that take no longer than the forward pass."""
MAPS_OF_LAYERS = (
    *("raw", "raw_words", "raw_residual"),
    *("norm_values", "norm_heads", "norm_layer", "norm_residual", "norm_layernorm", "globenc"),
    *("effective", "effective_signed", "sum_preserving", "minimum_norm", "efficient", "maximum_entropy"),
    *("contribution", "alti", "value_zeroing", "token_attribution", "uniform", "random", "distance"),
)
EXPLANATIONS = (
    *("rollout:raw", "rollout:contribution", "rollout:norm_layernorm", "rollout:globenc", "rollout:alti", "flow:raw"),
    *("token_attribution_last", "gradient_times_input", "integrated_gradients", "gradient_attention"),
    *("attnlrp", "alti_logit", "decompx", "leave_one_out"),
)
MAPS = (*MAPS_OF_LAYERS, *EXPLANATIONS)
COMPOSED = ("rollout", "flow")
REMOVAL_INSIDE = tuple(
    f"{intervention}{output}{sources}"
    for intervention in ("value_zeroing", "value_mean", "edge_knockout", "edge_knockout_renormalized")
    for output in ("", "_head", "_output")
    for sources in ("", "_words", "_others")
)
REMOVAL_AT_INPUT = tuple(
    f"{score}_{removal}"
    for removal in ("mask", "delete", "mean_embedding", "resample")
    for score in ("comprehensiveness", "sufficiency", "deletion", "insertion")
)
YARDSTICKS_OF_EXPLANATIONS = (*REMOVAL_AT_INPUT, "rationale_precision", "rationale_f1", "random_weights_output")
YARDSTICKS = (
    *REMOVAL_INSIDE,
    *REMOVAL_AT_INPUT,
    *("rationale_precision", "rationale_f1", "cue_precision", "random_weights", "random_weights_output"),
)
NORMS = ("frobenius", "spectral", "summed")
INPUT_SITES = ("before", "after")
PROBES = tuple(f"{kind} {loss}" for kind in ("naive", "linear", "procrustes", "mlp") for loss in ("cosine", "l2"))
FITS = ("closed", "adam")
FURTHER = ("transfer", "steps", "neighbors", "curve")
FIGURES = {
    "brunner2020": (
        *("1a", "1b", "1c", "2a", "2b", "3", "4a", "4b", "5a", "5b", *map(str, range(6, 18)), "18a", "18b"),
        *(*map(str, range(19, 41)), "41a", "41b", "42", "43a", "43b", "O1", "O2", "B1", "B2", "B3a", "B3b", "B4", "B5"),
    ),
    "bhardwaj2021": ("1", "2", "3", "4"),
    "sun2021": ("1a", "1b", "1c", "2a", "2b", "2c", "3"),
    "pascual2021": ("1", "2", "3"),
}
"""The figures of each paper."""
DTYPES = ("auto", "float32", "float64", "bfloat16", "float16")
ENGINES = ("serial", "ray")


def check_name(what: str, name: str, names: Sequence[str]) -> str:
    """Return a name if it is one of those that exist."""
    if name not in names:
        raise InputError(f"expected {what} of {', '.join(names)}, got {name!r}.")
    return name


def check_names(what: str, chosen: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Return names if there is at least one, and each exists."""
    wrong = [name for name in chosen if name not in names]
    if wrong or not chosen:
        raise InputError(f"expected {what} among {', '.join(names)}, got {repr(wrong[0]) if wrong else 'none'}.")
    return chosen


def choose_measures(names: Sequence[str]) -> tuple[str, ...]:
    """Order names of measures as they are registered, add `texts`, and reject unknown ones."""
    check_names("measures", names, MEASURES)
    return tuple(name for name in MEASURES if name in {*names, "texts"})


def check_map(name: str) -> str:
    """Return the name of a map if it exists; rollout:NAME and flow:NAME combine the layers of any map."""
    prefix, _, base = name.partition(":")
    if name not in MAPS and (prefix not in COMPOSED or base not in MAPS_OF_LAYERS):
        known = ", ".join(MAPS)
        raise InputError(f"expected maps among {known}, and rollout:NAME or flow:NAME of a map of layers, got {name!r}.")
    return name


def check_contest(maps: Sequence[str] | None, yardsticks: Sequence[str] | None) -> None:
    """Check the names of maps, and of yardsticks that judge them; None stands for the default, which fits any."""
    if maps is not None and not maps:
        check_names("maps", maps, MAPS)
    for name in maps or ():
        check_map(name)
    if yardsticks is not None:
        check_names("yardsticks", yardsticks, YARDSTICKS)
    chosen, judges = MAPS if maps is None else maps, REMOVAL_INSIDE if yardsticks is None else yardsticks
    check_pairs(
        [[name for name in chosen if (name in MAPS_OF_LAYERS) is of] for of in (True, False)],
        [[name for name in judges if (name not in YARDSTICKS_OF_EXPLANATIONS) is of] for of in (True, False)],
        named=maps is not None,
    )


def check_pairs(maps: Sequence[Sequence[str]], yardsticks: Sequence[Sequence[str]], *, named: bool) -> None:
    """Raise unless there are maps of layers, and explanations, for their yardsticks, and the reverse for those chosen by name."""
    pairs = list(zip(("maps", "explanations of the output"), maps, yardsticks, strict=True))
    for what, which, judges in pairs:
        if which and not judges and named:
            raise InputError(f"expected a yardstick that judges {what}, such as {which[0]}, got none; add one.")
    for what, which, judges in pairs:
        if judges and not which:
            raise InputError(f"expected {what} for the yardstick {judges[0]} to judge, got none; add one.")
