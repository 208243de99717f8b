"""What the tokens of each kind receive, and which patterns heads follow, in raw and effective attention and contributions."""

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor

from identiformer.equations import head_contributions
from identiformer.equations.attention.patterns import pattern_shares
from identiformer.measures.attention.patterns import separators
from identiformer.models import Model
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.results import make_result
from identiformer.tokens import Tokens
from identiformer.trace import Trace

COMPONENTS = ("raw", "effective", "contribution")
KINDS = ("[CLS]", "[SEP]", "punctuation", "other")
PATTERNS = ("vertical", "diagonal", "block")
"""Shares of weight: on the one key that receives most, or on separators; on the token itself and its neighbors; within the
query's own text of a pair. A map in which none is dominant is heterogeneous (Kovaleva et al., 2019)."""
PADDED = 128
"""Tokens to which the public code pads."""


def padded_length(model: Model) -> int:
    """Tokens to which texts are padded: as in the public code, or as many as the model takes."""
    return min(PADDED, model.positions or PADDED)


def attention_by_kind(trace: Trace) -> xr.Dataset:
    """The share of absolute weight that each kind of token receives, and that follows each pattern.

    `share` over (component, layer, head, kind) and `pattern_share` over (component, layer, head, pattern), for raw and effective
    attention and for contributions; means over rows.
    """
    stack = trace.stack()
    kinds, layers = _kinds(stack.queries), [layer.recorded() for layer in stack.layers]
    shares, patterns = [], []
    for record in layers:
        weights = record.weights.double()
        maps = {
            "raw": weights,
            "effective": record.effective().matrices().double().abs(),
            "contribution": head_contributions(weights, record.values.double(), record.projection)
            .contribution.abs()
            .nan_to_num(),
        }
        rows = {name: each / each.sum(-1, keepdim=True).clamp(min=1e-30) for name, each in maps.items()}
        shares.append(torch.stack([torch.stack([rows[name][..., kind].sum(-1).mean(-1) for kind in kinds], -1) for name in rows]))
        patterns.append(torch.stack([_patterns(rows[name], record.visible, stack.queries) for name in rows]))
    arrays = {"share": torch.stack(shares, 1), "pattern_share": torch.stack(patterns, 1)}
    coordinates = {
        "component": list(COMPONENTS), "layer": [record.number for record in layers], "head": np.arange(layers[0].heads),
        "kind": list(KINDS), "pattern": list(PATTERNS),
    }  # fmt: skip
    return make_result("attention_by_kind", arrays, coordinates, trace.source, {})


def _kinds(tokens: Tokens) -> list[Tensor]:
    special, texts = torch.tensor(tokens.special), list(tokens.texts)
    first = torch.arange(len(texts)) == 0
    marks = torch.tensor(separators(tokens)) & ~special
    return [special & first, special & ~first, marks, ~special & ~marks]


def _patterns(rows: Float[Tensor, "head query key"], visible: object, tokens: Tokens) -> Float[Tensor, "head pattern"]:
    shares = pattern_shares(rows, visible, separators=torch.tensor(separators(tokens)), ids=torch.tensor(tokens.ids))  # type: ignore
    segments = torch.tensor(tokens.segments)
    same = segments[:, None] == segments
    within = (
        torch.where(same, rows, 0).sum(-1).mean(-1) if bool((segments > 0).any()) else torch.full_like(shares.self, torch.nan)
    )
    diagonal = torch.stack([share.nan_to_num() for share in (shares.previous, shares.self, shares.next)]).sum(0)
    return torch.stack([shares.peak + shares.separator, diagonal, within], -1)


def padding_recipe(model: Model, text: str, pair: str | None) -> xr.Dataset:
    """What projecting with padded values, and removing the padding afterwards, does to effective attention.

    The text is padded to 128 tokens, or to as many as the model takes; the values of the padding take part in the projection, as
    in public code; then the rows and columns of the text are kept. `output_change` is ‖(A' - A)V‖/‖AV‖, which is 0
    for effective attention; `correlation` is that of A' with A, `true_correlation` that of A⊥ with A.
    """
    calls: list[Call] = []
    padded = padded_length(model)
    inputs = model.tokenizer(text, pair, padding="max_length", truncation=True, max_length=padded, return_tensors="pt")
    replica = model.replica()
    with recording(replica, WEIGHTS, calls.append):
        model.forward(replica, dict(inputs))
    length = int(inputs["attention_mask"].sum())
    trace = model.limited(padded).trace(text, pair, truncate=True, form="weights")
    columns: dict[str, list[Tensor]] = {name: [] for name in ("output_change", "correlation", "true_correlation")}
    for call, layer in zip(calls, trace.stack().layers, strict=True):
        record = layer.recorded()
        weights, values = call.weights[0].double(), call.value[0].double()  # type: ignore[index]
        basis, sigma, _ = torch.linalg.svd(values, full_matrices=False)
        kept = basis * (sigma > sigma[:, :1] * padded * torch.finfo(torch.float32).eps)[:, None]
        projected = (weights @ kept @ kept.mT)[:, :length, :length]
        raw, used = weights[:, :length, :length], values[:, :length]
        change = ((projected - raw) @ used).flatten(1).norm(dim=-1) / (raw @ used).flatten(1).norm(dim=-1)
        columns["output_change"].append(change)
        columns["correlation"].append(_correlation(projected, raw))
        columns["true_correlation"].append(_correlation(record.effective().matrices().double(), record.weights.double()))
    arrays = {name: torch.stack(values).numpy() for name, values in columns.items()}
    arrays["tokens"] = np.full(arrays["correlation"].shape, length)
    return make_result("padding_recipe", arrays, {}, trace.source, {"padded": padded})


def _correlation(first: Tensor, second: Tensor) -> Tensor:
    one, other = (each.flatten(1) - each.flatten(1).mean(-1, keepdim=True) for each in (first, second))
    return (one * other).sum(-1) / (one.norm(dim=-1) * other.norm(dim=-1))
