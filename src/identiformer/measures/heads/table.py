"""The readings of heads, collected into one Dataset: shares of their weight, and on request every map."""

from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from identiformer.equations.certificates.contributions import CATEGORIES
from identiformer.measures.heads.heads import Heads
from identiformer.measures.heads.reading import HeadReading
from identiformer.measures.heads.shares import readable_share
from identiformer.results import describe
from identiformer.results.schema import VARIABLES

MAPS = (
    "weight", "low", "high", "contribution", "contribution_low", "contribution_high", "norm_share", "contributing_weight",
    "readable_weight",
)  # fmt: skip
OF_BOUNDS = ("low_solved", "high_solved")
SHARES = ("certified", "contributing", "readable", "output_share", "sink_share")
BYTES = 8 * len(MAPS) + 3
"""Of all maps, per weight: a category, and whether each bound was solved, take a byte each."""


LARGE = 0.05
"""Bounds of smaller weights are not kept where maps are not: there are too many."""


class HeadTable:
    """What is known of the heads that are read, while readings arrive in any order.

    Parameters
    ----------
    heads : Heads
        The heads that are read.
    own, error : float64 tensors (layer key)
        Self-contributions of the vectors that keys are made of, and their error; NaN where unknown.
    maps : bool
        Whether to keep every map of every head.
    """

    def __init__(self, heads: Heads, own: Tensor, error: Tensor, maps: bool = False) -> None:
        self.heads, self.own, self.error = heads, own, error
        layers, count, _, keys = heads.shape
        means = (*SHARES, "largest_certified", "top_weight", "top_contribution")
        self.numbers: dict[str, np.ndarray] = {name: np.full((layers, count), np.nan) for name in means}
        self.numbers |= {name: np.full((layers, count), -1) for name in ("sink_key", "top_key")}
        self.numbers["zero_rows"] = np.zeros((layers, count), np.int64)
        self.numbers["contributing_by_key"] = np.full((layers, count, keys), np.nan)
        self.bounded = np.zeros((layers, count), bool)
        """Of which heads bounds were computed."""
        self.large: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}
        """Of heads with bounds: row, key, weight and lower bound of each weight of at least LARGE."""
        self.maps: dict[str, np.ndarray] = {}
        if maps:
            self.maps = {name: np.full(heads.shape, np.nan) for name in MAPS}
            self.maps["category"] = np.full(heads.shape, -1, np.int8)
            self.maps |= {name: np.zeros(heads.shape, bool) for name in OF_BOUNDS}

    def add(self, reading: HeadReading) -> None:
        """Enter the reading of one head, in place of an earlier one."""
        at = self.heads.layers.index(reading.head.layer), self.heads.heads.index(reading.head.head)
        received = reading.weight.mean(0)
        top = int(received.argmax())
        sink_share, sink_key = reading.sinks()
        found = {
            **{name: float(getattr(reading.shares, name)) for name in SHARES[:3]},
            "contributing_by_key": reading.shares.contributing_by_key.numpy(),
            "output_share": reading.output_share,
            "sink_share": sink_share,
            "sink_key": sink_key,
            "largest_certified": reading.largest_certified(),
            "zero_rows": int(reading.contribution.isnan().all(-1).sum()),
            "top_key": top,
            "top_weight": float(received[top]),
            "top_contribution": float(reading.contribution[:, top].nanmean()),
        }
        for name, value in found.items():
            self.numbers[name][at] = value
        self.bounded[at] = reading.bounds is not None
        if reading.bounds is not None:
            weight, low = reading.weight.numpy(), reading.low.numpy()
            rows, keys = (weight >= LARGE).nonzero()
            self.large[reading.head.layer, reading.head.head] = rows, keys, weight[rows, keys], low[rows, keys]
        for name, array in self.maps.items():
            if reading.bounds is not None or name not in OF_BOUNDS:
                array[at] = reading.map(name).numpy()

    def attribute(self, own: Tensor) -> None:
        """Enter self-contributions that are known only now."""
        self.own = own
        self.numbers["readable"] = readable_share(self.numbers["contributing_by_key"], own.numpy()[:, None])

    def dataset(self, tolerance: float, certified: bool, complete: bool = True) -> xr.Dataset:
        """The Dataset of an `attention_reading`, with maps if they were kept; see there for the variables."""
        heads, stack = self.heads, self.heads.stack
        arrays = {**self.numbers, **{name: array for name, array in self.maps.items() if certified or name not in OF_BOUNDS}}
        arrays["bounded"] = self.bounded
        arrays["sink_scale"] = 1 - arrays["sink_share"]
        arrays |= {"self_contribution": self.own.numpy(), "self_contribution_error": self.error.numpy()}
        coordinates = {
            "layer": heads.layers,
            "head": heads.heads,
            **token_coordinates(heads),
            "part": list(CATEGORIES),
        }
        variables = {name: (dims, arrays[name].copy()) for name, dims in VARIABLES["attention_reading"].items() if name in arrays}
        settings = {
            "kind": stack.kind,
            "tolerance": tolerance,
            "certified": certified,
            "rows": "as many as fit" if heads.fitted else "all" if len(heads.rows) == len(stack.queries) else "chosen",
            "heads": sum(layer.heads for layer in stack.layers),
            "output": "projected" if heads.projected else "values",
        }
        return describe(xr.Dataset(variables, coordinates), "attention_reading", heads.trace.source, settings, complete=complete)


def token_coordinates(heads: Heads) -> dict[str, Any]:
    """The axes query and key of a result, with their tokens."""
    queries, keys, rows = heads.stack.queries, heads.stack.keys, heads.rows
    return {
        "query": rows,
        "key": np.arange(len(keys)),
        "query_token": ("query", [queries.texts[row] for row in rows]),
        "key_token": ("key", list(keys.texts)),
        "query_special": ("query", [queries.special[row] for row in rows]),
        "key_special": ("key", list(keys.special)),
    }
