"""What a run found, in sentences."""

from collections.abc import Callable, Mapping

import xarray as xr


def findings(results: Mapping[str, xr.Dataset]) -> list[str]:
    """What a run found, in one sentence per measure that has one."""
    return [FINDINGS[name](result) for name, result in results.items() if name in FINDINGS]


def _share(values: xr.DataArray) -> str:
    return f"{float(values.mean()):.0%}"


def _attribution_finding(result: xr.Dataset) -> str:
    medians = result.self_contribution_quantiles.sel(quantile=0.5)
    return (
        f"The median self-contribution of a token is {float(medians[0]):.0%} at layer {int(result['layer'][0])} and "
        f"{float(medians[-1]):.0%} at layer {int(result['layer'][-1])}, where {_share(result.not_own_main[-1])} of the tokens "
        "have another token as their main contributor."
    )


def _reading_finding(result: xr.Dataset) -> str:
    unknown = bool(result.readable.isnull().any())
    tail = "" if unknown else f", and {_share(result.readable)} is also attributed to the token it points to"
    return (
        f"Of the attention, {_share(result.certified)} is certified, {_share(result.contributing)} also contributes to what its "
        f"head writes{tail}; {_share(result.sink_share)} is on attention sinks."
    )


FINDINGS: dict[str, Callable[[xr.Dataset], str]] = {
    "reading": _reading_finding,
    "effective_attention": lambda result: (
        f"A row of attention has {float(result.nullity.mean()):.0f} dimensions on average that its head's output does not "
        f"determine; raw and effective attention correlate at {float(result.correlation.mean()):.2f}."
    ),
    "attention_identifiability": lambda result: (
        f"The output of a head determines {_share(result.identified_on_simplex)} of all rows among attention distributions, and "
        f"{_share(result.identified)} among all rows."
    ),
    "ambiguity": lambda result: (
        f"In {_share(result.certified)} of the rows that were drawn, the largest weight is certified to be the largest."
    ),
    "token_attribution": _attribution_finding,
}
