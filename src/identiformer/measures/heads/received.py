"""How much attention some rows pay to each key over all heads, and how much of it passes each test."""

import numpy as np
import xarray as xr

from identiformer.measures.heads.heads import Heads
from identiformer.measures.heads.reading import HeadReading

STAGES = ("weight", "certified", "contributing", "readable")


class ReceivedAttention:
    """Sums over heads, while readings arrive in any order.

    Heads count by how much of their layer's output they write: a head that has all its weight on one key and writes almost
    nothing shows nothing about that key.
    """

    def __init__(self, heads: Heads) -> None:
        layers, _, rows, keys = heads.shape
        self._heads = heads
        self._weights, self._shares = np.zeros((layers, rows, keys)), np.zeros(layers)
        self._stages = np.zeros((len(STAGES), rows, keys))

    def add(self, reading: HeadReading) -> None:
        """Add the rows of one head."""
        share, layer = reading.output_share, self._heads.layers.index(reading.head.layer)
        if np.isnan(share):
            return
        weight, passed = reading.weight.numpy(), [stage.numpy() for stage in reading.passed]
        known = ~np.isnan(passed[1])
        self._weights[layer] += share * weight
        self._shares[layer] += share
        # Where self-contributions are unknown in one layer, so is the readable part of all layers together.
        self._stages += share * np.where(known, [weight, *passed], 0.0)

    def dataset(self) -> xr.Dataset:
        """Over (query, key): `attention`, the mean over layers of that of their heads; and the sums of each stage."""
        with np.errstate(invalid="ignore", divide="ignore"):
            attention = (self._weights / self._shares[:, None, None]).mean(0)
        variables = {"attention": attention, **dict(zip(STAGES, self._stages, strict=True))}
        coordinates = {"query": self._heads.rows, "key": np.arange(attention.shape[1])}
        return xr.Dataset({name: (("query", "key"), values) for name, values in variables.items()}, coordinates)
