"""What a corpus showed of every head, as an element of a page."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from identiformer.page.html import json_element
from identiformer.page.summary import plain

KNOWN = {
    "effective_attention": (
        "null_mass", "correlation", "nullity", "rank", "null_space_share", "negative_share",
        "raw_from_separators", "effective_from_separators", "raw_from_others", "effective_from_others",
    ),
    "attention_identifiability": ("identified", "identified_on_simplex"),
}  # fmt: skip


def corpus_element(results: Mapping[str, xr.Dataset]) -> str | None:
    """The numbers of every head, by measure; None where no measure looked at heads."""
    measured = {measure: results[measure] for measure in KNOWN if measure in results}
    if not measured:
        return None
    one = next(iter(measured.values()))
    about: dict[str, Any] = {
        "model": one.attrs["model"],
        "corpus": one.attrs["corpus"],
        "layers": one["layer"].values.tolist(),
        "heads": one.sizes["head"],
        "numbers": {name: plain(result[name].values) for measure, result in measured.items() for name in KNOWN[measure]},
    }
    for result in measured.values():
        for which in ("raw", "effective"):
            received = result.get(f"{which}_received")
            if received is not None:
                about["numbers"] |= {
                    f"{which}_to_{kind}": plain(received.sel(kind=kind).values) for kind in received["kind"].values
                }
    return json_element("identiformer-corpus", about)
