"""What makes the maps of one layer, small enough to be mailed: queries, keys and the thin factors, not the maps.

Raw attention is a softmax of products of queries and keys; effective attention is a product of two thin factors. A browser
multiplies them when a head is opened. How many bits the numbers of a head get is decided here by making the maps and
comparing: no entry may be off by more than one of 256 steps of color, on the scale of its own map. Where more than a softmax
of products made the weights (a learned sink, a soft cap, a position bias), the weights themselves are packed.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from identiformer.equations.attention.grouped_heads import per_head
from identiformer.page.packing import MOST_BITS, pack, rounded
from identiformer.trace import AttentionLayer, FactoredLayer, RecordedLayer

TOLERANCE = {"raw": 1 / 512, "effective": 1 / 256}
"""As a share of the largest entry of a head's map."""
FIRST_GUESS = 12
MOST_ENTRIES = 2**20
"""Of a map that is compared whole; of larger ones some rows are."""
SOME_ROWS = 256

Maps = Callable[..., Tensor]


def rows_of(layer: FactoredLayer, queries: range) -> FactoredLayer:
    """Some rows of a layer in factored form."""
    return replace(layer, factored=layer.factored.restrict(torch.tensor(queries)))


def pack_layer(layer: AttentionLayer) -> bytes:
    """The length of a description in JSON, the description, and the arrays that it describes.

    `arrays`, by group of heads: `query` and `key`, or `weights`; `basis`; and `coordinates`, where they are more than the
    product of raw attention and basis. `error`: the largest of any entry, as a share of the largest entry of its map.
    `visible`: None where every query sees every key, else where each row's keys start and stop, or a packed mask.
    """
    packer = _Packer(layer)
    rows = _compared(layer)
    raw = _pack_raw(packer, layer, layer.weights[:, rows].double(), rows) if isinstance(layer, RecordedLayer) else None
    factored = layer.effective()
    hidden = ~factored.visible.rows(rows).dense()
    truth = factored.restrict(rows).matrices().double()

    def product(coordinates: Tensor, basis: Tensor) -> Tensor:
        return (coordinates @ per_head(basis, layer.heads).mT).masked_fill_(hidden, 0)

    if raw is not None and factored.visible.shared:  # then A⊥ = A·B·Bᵀ
        packer.keep(
            "effective", lambda basis: product(raw @ per_head(basis, layer.heads), basis), truth, {"basis": factored.basis}
        )
    else:
        factors = {"basis": factored.basis, "coordinates": factored.coordinates}
        packer.keep("effective", lambda basis, coordinates: product(coordinates[:, rows], basis), truth, factors)
    return packer.content()


def _compared(layer: AttentionLayer) -> Tensor:
    """The rows by which the maps are compared with what they should be."""
    queries = layer.visible.queries
    few = SOME_ROWS if queries * layer.visible.keys > MOST_ENTRIES else queries
    return torch.linspace(0, queries - 1, min(few, queries)).round().long()


def _pack_raw(packer: "_Packer", layer: RecordedLayer, truth: Tensor, rows: Tensor) -> Tensor:
    """Raw attention by queries and keys, where they make it, else as it is; what a browser will make of these rows."""
    hidden = ~layer.visible.rows(rows).dense()

    def softmax(query: Tensor, key: Tensor) -> Tensor:
        logits = (query[:, rows] @ per_head(key, layer.heads).mT) * layer.scaling
        return logits.masked_fill_(hidden, -torch.inf).softmax(-1)

    if layer.queries is not None and layer.keys is not None:
        exact = softmax(layer.queries.double(), layer.keys.double())
        if float((exact - truth).abs().max()) < TOLERANCE["raw"] * float(truth.max()) / 4:
            return packer.keep("raw", softmax, truth, {"query": layer.queries, "key": layer.keys})
    return packer.keep("raw", lambda weights: weights[:, rows], truth, {"weights": layer.weights})


class _Packer:
    """The arrays of a layer, each in as few bits as its maps allow."""

    def __init__(self, layer: AttentionLayer) -> None:
        self.layer = layer
        self.described: dict[str, Any] = {}
        self.packed = b""
        self.error: dict[str, float] = {}

    def keep(self, name: str, make: Maps, truth: Tensor, members: dict[str, Tensor]) -> Tensor:
        """Pack what makes a map; the map that it makes."""
        arrays = {member: tensor.double().numpy() for member, tensor in members.items()}
        groups = min(map(len, arrays.values()))
        largest = truth.abs().amax((-2, -1)).clamp(min=1e-12)

        def attempt(bits: np.ndarray) -> tuple[Tensor, np.ndarray]:
            read = {
                member: torch.from_numpy(rounded(array, bits.repeat(len(array) // groups))) for member, array in arrays.items()
            }
            made = make(**read)
            off = (made - truth).abs().amax((-2, -1)) / largest
            return made, off.view(groups, -1).amax(-1).numpy() / TOLERANCE[name]

        # One bit more halves the error, so one try tells where to look.
        _, off = attempt(np.full(groups, FIRST_GUESS))
        bits = (FIRST_GUESS + np.ceil(np.log2(off.clip(min=1e-6)))).clip(4, MOST_BITS).astype(np.int64)
        made, off = attempt(bits)
        before = np.full(groups, np.inf)
        # Where a bit more does not help, the error comes from the raw attention that the map is made of.
        while bool((more := (off > 1) & (bits < MOST_BITS) & (off < 0.9 * before)).any()):
            bits, before = bits + more, np.where(more, off, 0)
            made, off = attempt(bits)
        for member, array in arrays.items():
            description, content = pack(array, bits.repeat(len(array) // groups))
            self.described[member] = {**description, "start": len(self.packed)}
            self.packed += content
        self.error[name] = float(off.max()) * TOLERANCE[name]
        return made

    def content(self) -> bytes:
        """The description, and the arrays."""
        about = {
            "layer": self.layer.number,
            "heads": self.layer.heads,
            "scaling": self.layer.scaling if isinstance(self.layer, RecordedLayer) else 1.0,
            "visible": _visible(self.layer),
            "error": self.error,
            "arrays": self.described,
        }
        header = json.dumps(about, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 4)
        return len(header).to_bytes(4, "little") + header + self.packed


def _visible(layer: AttentionLayer) -> dict[str, Any] | None:
    visible = layer.visible
    if visible.shared:
        return None
    if visible.mask is None:
        return {"start": visible.start.tolist(), "stop": visible.stop.tolist()}
    return {"mask": [row.tobytes().hex() for row in np.packbits(visible.mask.numpy(), axis=-1)]}
