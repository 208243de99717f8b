"""The sentence about the patterns of heads, and their data."""

import numpy as np
import xarray as xr

from identiformer.readings.patterns import pattern_sentence, patterns_as_json


def patterns(dominant: list[str]) -> xr.Dataset:
    shares = np.array([[[0.5, 0.25]], [[np.nan, np.nan]]])
    return xr.Dataset(
        {"share": (("pattern", "layer", "head"), shares), "dominant": (("layer", "head"), [dominant])},
        {"pattern": ["peak", "next"]},
    )


def test_heads_are_counted_by_pattern():
    assert (
        pattern_sentence(patterns(["peak", "broad"]))
        == "Of 2 heads, 1 attends to one key, 1 broadly, each with at least 40% of its weight."
    )
    assert pattern_sentence(patterns(["none", "none"])) == "Of 2 heads, 2 follow no pattern."
    assert pattern_sentence(patterns(["self", "none"])) == (
        "Of 2 heads, 1 attends to the token itself, each with at least 40% of its weight; 1 follows no pattern."
    )


def test_undefined_shares_are_null():
    data = patterns_as_json(patterns(["peak", "none"]))
    assert data["shares"] == {"peak": [[0.5, 0.25]], "next": [[None, None]]}
    assert data["dominant"] == [["peak", "none"]]
