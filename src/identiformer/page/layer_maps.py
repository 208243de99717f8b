"""Pack what the attention maps of one layer are computed from: queries, keys and thin factors, which are smaller than the maps.

Raw attention is the softmax of products of queries and keys; effective attention is the product of two thin factors, one of them
a basis B of what keys write; contributions follow from raw attention, the basis and one small matrix per head. The browser
multiplies them when a head is selected. The number of bits for each head is found by computing its maps from rounded numbers: no
entry may be off by more than one of 256 color steps, on the scale of its map. Where more than a softmax of products shapes the
weights (a learned sink, a soft cap, a position bias), the weights themselves are packed.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.attention.contributions import contributions
from identiformer.equations.attention.heads import per_head
from identiformer.page.packing import MOST_BITS, pack, rounded
from identiformer.trace import AttentionLayer, FactoredLayer, RecordedLayer

TOLERANCE = {"raw": 1 / 512, "effective": 1 / 256, "contribution": 1 / 64}
"""Largest error of an entry, relative to the largest entry of its head's map."""
FIRST_GUESS = 12
"""Bits per number in the first attempt."""
MOST_ENTRIES = 2**20
"""Largest map of which every row is compared; of larger ones, SOME_ROWS are."""
SOME_ROWS = 256


def restrict_rows(layer: FactoredLayer, queries: range) -> FactoredLayer:
    """The rows of some queries."""
    return replace(layer, factored=layer.factored.restrict(torch.tensor(queries)))


def pack_layer(layer: AttentionLayer) -> bytes:
    """The length of a JSON header, the header, and the arrays that it describes.

    In the header, `arrays` holds `query` and `key`, or `weights`; `basis`; `coordinates`, unless they are the product of raw
    attention and basis; and `gram`, from which contributions follow. `error` is the largest error of an entry, relative to the
    largest entry of its map. `visible` is None if every query sees every key; otherwise it holds the start and stop of each row's
    keys, or a packed mask.
    """
    packer = _Packer(layer)
    rows = _compared_rows(layer)
    raw = _pack_raw(packer, layer, rows) if isinstance(layer, RecordedLayer) else None
    factored = layer.effective()
    truth = factored.restrict(rows).matrices().double()
    hidden = ~factored.visible.rows(rows).dense()

    def product(coordinates: Tensor, basis: Tensor) -> Tensor:
        return (coordinates @ per_head(basis, layer.heads).mT).masked_fill_(hidden, 0)

    if raw is not None and factored.visible.shared:  # then A⊥ = A·B·Bᵀ
        factors = {"basis": factored.basis}
        packer.add("effective", truth, factors, lambda basis: product(raw @ per_head(basis, layer.heads), basis))
    else:
        factors = {"basis": factored.basis, "coordinates": factored.coordinates}
        packer.add("effective", truth, factors, lambda basis, coordinates: product(coordinates[:, rows], basis))
    if raw is not None:
        _pack_contributions(packer, layer.recorded(), factored.basis, raw, rows)
    return packer.content()


def _pack_contributions(packer: "_Packer", layer: RecordedLayer, basis: Tensor, raw: Tensor, rows: Tensor) -> None:
    """Pack K with ⟨t_j, t_k⟩ = (BKB^T)_jk for what keys write, T = VH: contributions are A∘(CKB^T)/diag(CKC^T) with C = AB."""
    coefficients = per_head(torch.linalg.lstsq(basis.double(), layer.values.double()).solution, layer.heads)
    if layer.projection is not None:
        coefficients = coefficients @ layer.projection.double()
    read = per_head(packer.read["basis"], layer.heads)
    truth = contributions(layer.weights[:, rows].double(), layer.values.double(), layer.projection).nan_to_num()
    outputs = raw @ read

    def compute(gram: Tensor) -> Tensor:
        directions = outputs @ gram
        squared = (directions * outputs).sum(-1, keepdim=True)
        return torch.where(squared > 0, raw * (directions @ read.mT) / squared, 0.0)

    packer.add("contribution", truth, {"gram": coefficients @ coefficients.mT}, compute)


def _compared_rows(layer: AttentionLayer) -> Tensor:
    """The rows in which the maps from rounded numbers are compared with the exact ones."""
    queries = layer.visible.queries
    count = SOME_ROWS if queries * layer.visible.keys > MOST_ENTRIES else queries
    return torch.linspace(0, queries - 1, min(count, queries)).round().long()


def _pack_raw(packer: "_Packer", layer: RecordedLayer, rows: Tensor) -> Tensor:
    """Pack queries and keys if they reproduce the weights, otherwise the weights; return the rows that the browser will get."""
    truth = layer.weights[:, rows].double()
    hidden = ~layer.visible.rows(rows).dense()

    def softmax(query: Tensor, key: Tensor) -> Tensor:
        logits = (query[:, rows] @ per_head(key, layer.heads).mT) * layer.scaling
        return logits.masked_fill_(hidden, -torch.inf).softmax(-1)

    if layer.queries is not None and layer.keys is not None:
        exact = softmax(layer.queries.double(), layer.keys.double())
        if float((exact - truth).abs().max()) < TOLERANCE["raw"] * float(truth.max()) / 4:
            return packer.add("raw", truth, {"query": layer.queries, "key": layer.keys}, softmax)
    return packer.add("raw", truth, {"weights": layer.weights}, lambda weights: weights[:, rows])


class _Packer:
    """Collects the arrays of a layer, each in as few bits as its maps allow."""

    def __init__(self, layer: AttentionLayer) -> None:
        self.layer = layer
        self.descriptions: dict[str, Any] = {}
        self.packed = b""
        self.error: dict[str, float] = {}
        self.read: dict[str, Tensor] = {}
        """The arrays as the page reads them."""

    def add(self, name: str, truth: Tensor, factors: dict[str, Tensor], compute: Callable[..., Tensor]) -> Tensor:
        """Pack the factors of a map, and return the map that `compute` makes of the rounded factors."""
        arrays = {factor: tensor.double().numpy() for factor, tensor in factors.items()}
        groups = min(map(len, arrays.values()))
        largest = truth.abs().amax((-2, -1)).clamp(min=1e-12)

        def attempt(bits: np.ndarray) -> tuple[Tensor, np.ndarray]:
            """The map from rounded factors, and its largest error per group in units of the tolerance."""
            read = {factor: rounded(array, bits.repeat(len(array) // groups)) for factor, array in arrays.items()}
            computed = compute(**{factor: torch.from_numpy(array) for factor, array in read.items()})
            error = (computed - truth).abs().amax((-2, -1)) / largest
            return computed, error.view(groups, -1).amax(-1).numpy() / TOLERANCE[name]

        # One more bit halves the error, so one attempt shows how many are needed.
        _, error = attempt(np.full(groups, FIRST_GUESS))
        bits = (FIRST_GUESS + np.ceil(np.log2(error.clip(min=1e-6)))).clip(4, MOST_BITS).astype(np.int64)
        computed, error = attempt(bits)
        previous = np.full(groups, np.inf)
        # Where one more bit does not help, the error comes from the raw attention that the map is computed from.
        while bool((more := (error > 1) & (bits < MOST_BITS) & (error < 0.9 * previous)).any()):
            bits, previous = bits + more, np.where(more, error, 0)
            computed, error = attempt(bits)
        for factor, array in arrays.items():
            description, content = pack(array, bits.repeat(len(array) // groups))
            self.descriptions[factor] = {**description, "start": len(self.packed)}
            self.packed += content
            self.read[factor] = torch.from_numpy(rounded(array, bits.repeat(len(array) // groups)))
        self.error[name] = float(error.max()) * TOLERANCE[name]
        return computed

    def content(self) -> bytes:
        """The header and the arrays."""
        description = {
            "layer": self.layer.number,
            "heads": self.layer.heads,
            "scaling": self.layer.scaling if isinstance(self.layer, RecordedLayer) else 1.0,
            "visible": _visible_keys(self.layer),
            "error": self.error,
            "arrays": self.descriptions,
        }
        header = json.dumps(description, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 4)
        return len(header).to_bytes(4, "little") + header + self.packed


def _visible_keys(layer: AttentionLayer) -> dict[str, Any] | None:
    visible = layer.visible
    if visible.shared:
        return None
    if visible.mask is None:
        return {"start": visible.start.tolist(), "stop": visible.stop.tolist()}
    return {"mask": [row.tobytes().hex() for row in np.packbits(visible.mask.numpy(), axis=-1)]}
