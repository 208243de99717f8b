"""An inspection of one text's attention by the paper's decomposition: null spaces, and where raw and effective differ most."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from identiformer.errors import InputError
from identiformer.measures.attention.ambiguity import certified_share
from identiformer.measures.attention.effective import effective_attention
from identiformer.measures.indices import Indices, select_indices
from identiformer.models import Model
from identiformer.readings.certificate import Certificate, certify_head
from identiformer.trace import RecordedLayer, Trace
from identiformer.typed_json import finite_or_null

TOP_TOKENS = 3


@dataclass(frozen=True)
class LayerSummary:
    """Means over the heads of one layer."""

    layer: int
    heads_with_null_space: int
    mean_nullity: float
    mean_null_mass: float
    mean_correlation: float


@dataclass(frozen=True)
class Received:
    """A token and the mean attention that it receives over all queries."""

    token: str
    position: int
    mean: float


@dataclass(frozen=True)
class HeadSummary:
    """How far raw and effective attention of one head agree, and the tokens that receive most of each."""

    layer: int
    head: int
    nullity: int
    null_mass: float
    correlation: float
    raw: tuple[Received, ...]
    effective: tuple[Received, ...]

    def sentence(self) -> str:
        """The tokens that receive most attention, in a sentence."""
        raw, effective = (", ".join(f"{key.token} {key.mean:+.2f}" for key in side) for side in (self.raw, self.effective))
        numbers = f"correlation {self.correlation:.2f}, null mass {self.null_mass:.0%}"
        raw_part = f"most raw attention goes to {raw}; " if raw else ""
        return f"Layer {self.layer}, head {self.head} ({numbers}): {raw_part}most effective attention to {effective}."


@dataclass(frozen=True)
class Inspection:
    """The findings on one text, made by `inspect_trace`; `sentences()` puts them into words."""

    model: str
    tokens: int
    heads: int
    heads_with_null_space: int
    largest_nullity: int
    head_width: int
    layers: tuple[LayerSummary, ...]
    shown: tuple[HeadSummary, ...]
    result: xr.Dataset
    certificates: tuple[Certificate, ...] = ()
    """Of the shown heads, if they were certified."""
    certified: xr.Dataset | None = None
    """The `certified_share` of every head, if heads were certified."""
    chosen: bool = False
    """Whether the user chose which heads to look at."""

    def sentences(self) -> list[str]:
        """The findings as sentences."""
        return [*self._null_space_sentences(), *self._certified_sentences()]

    def _certified_sentences(self) -> list[str]:
        if self.certified is None:
            return []
        rows = len(json.loads(self.certified.attrs["settings"])["rows"])
        share = float(self.certified.certified.mean())
        return [
            f"Of {rows} rows of every head, drawn at random, {share:.0%} have a largest weight that is certified to be the "
            "largest."
        ]

    def _null_space_sentences(self) -> list[str]:
        here = f"on these {self.tokens} tokens (a head is {self.head_width} wide)"
        if not self.heads_with_null_space:
            return [
                f"None of the {self.heads} heads has a null space {here}: the output depends on every attention weight, and raw "
                "and effective attention are the same."
            ]
        null_space = (
            f"{self.heads_with_null_space} of {self.heads} heads have a null space {here}: the head's output does not depend on "
            f"up to {self.largest_nullity} dimensions of a row of attention."
        )
        first = self.shown[0] if self.shown else None
        if first is None or np.isnan(first.correlation):
            return [null_space]
        head = f"layer {first.layer}, head {first.head}"
        among = "of the chosen heads " if self.chosen and len(self.shown) > 1 else ""
        opening = (
            f"In {head}, the" if self.chosen and not among else f"Raw and effective attention differ most {among}in {head}: their"
        )
        of = " of raw and effective attention" if self.chosen and not among else ""
        return [
            null_space,
            f"{opening} correlation{of} is {first.correlation:.2f}, and {first.null_mass:.0%} of a row's squared norm is in the "
            "null component.",
        ]

    def as_json(self) -> dict[str, Any]:
        """The findings as JSON data."""
        numbers = ("model", "tokens", "heads", "heads_with_null_space", "largest_nullity", "head_width")
        data: dict[str, Any] = {name: getattr(self, name) for name in numbers}
        data |= {name: [asdict(row) for row in getattr(self, name)] for name in ("layers", "shown")}
        if self.certificates:
            data["certificates"] = [certificate.as_json() for certificate in self.certificates]
        if self.certified is not None:
            data["certified_share"] = self.certified.certified.values
        return finite_or_null({**data, "sentences": self.sentences(), "provenance": self.result.attrs})


def inspect_trace(
    trace: Trace, *, layers: Indices | None = None, heads: Indices | None = None, shown: int = 3, kind: str | None = None
) -> Inspection:
    """Find the heads of a trace whose raw and effective attention differ most, or describe chosen layers or heads.

    The lower the correlation of the two, the less of a row the output determines. How much a weight affects the output is
    another question, which `read` answers.

    Parameters
    ----------
    trace : Trace
        With recorded weights, or made with raw_norms=True.
    layers, heads : int or sequence of int, optional
        The heads to describe; by default all that have a null space. Layers count from 1, heads from 0.
    shown : int
        How many heads to describe.
    kind : str, optional
        Attention type; the first of the trace by default.

    Returns
    -------
    Inspection
        `layers`, a summary of each; `shown`, the heads found; `result`, the `effective_attention`; and `sentences()`.

    Examples
    --------
    >>> import identiformer as idf
    >>> inspection = idf.inspect_trace(idf.load("minilm").trace("He said that the pie was his."))
    >>> inspection.heads, inspection.heads_with_null_space
    (72, 0)
    """
    result = effective_attention(trace, kind=kind)
    if "correlation" not in result:
        raise InputError("inspection needs raw norms; trace the text with form='weights' or raw_norms=True.")
    ranked = rank_heads(result, layers, heads)
    nullity = result.nullity.max("query")
    return Inspection(
        model=str(result.attrs["model"]),
        tokens=result.sizes["key"],
        heads=nullity.size,
        heads_with_null_space=int((nullity > 0).sum()),
        largest_nullity=int(nullity.max()),
        head_width=head_width(trace, kind),
        layers=tuple(_layer(result, nullity, int(number)) for number in result["layer"]),
        shown=tuple(_head(result, nullity, layer, head) for layer, head in ranked[:shown]),
        result=result,
        chosen=layers is not None or heads is not None,
    )


def certify(
    inspection: Inspection,
    model: Model,
    trace: Trace,
    *,
    kind: str | None = None,
    progress: bool = False,
    tensor: Tensor | None = None,
) -> Inspection:
    """Add certificates of the shown heads to an inspection, and the `certified_share` of every head.

    tensor: the image or audio of the trace.
    """
    certificates = tuple(
        certify_head(model, trace, head.layer, head.head, kind=kind, progress=progress, tensor=tensor)
        for head in inspection.shown
    )
    share = certified_share(trace, kind=kind, progress=progress)
    return replace(inspection, certificates=certificates, certified=share)


def head_width(trace: Trace, kind: str | None) -> int:
    """The dimensions of a head's output."""
    record = trace.layer(1, kind)
    return record.values.shape[-1] if isinstance(record, RecordedLayer) else record.effective().basis.shape[-1]


def _layer(result: xr.Dataset, nullity: xr.DataArray, number: int) -> LayerSummary:
    layer = result.sel(layer=number)
    return LayerSummary(
        layer=number,
        heads_with_null_space=int((nullity.sel(layer=number) > 0).sum()),
        mean_nullity=float(layer.nullity.mean()),
        mean_null_mass=float(layer.null_mass.mean()),
        mean_correlation=float(layer.correlation.mean()),
    )


def rank_heads(result: xr.Dataset, layers: Indices | None = None, heads: Indices | None = None) -> list[tuple[int, int]]:
    """Order (layer, head) by the correlation of raw with effective attention, lowest first and undefined ones last.

    Only the chosen layers and heads; if neither is chosen, only heads that have a null space.
    """
    if "correlation" not in result:
        return []
    if layers is None and heads is None:
        candidates = (result.nullity.max("query") > 0).values
    else:
        in_layers = np.isin(result["layer"], select_indices(layers, result.sizes["layer"], "layer", first=1))
        candidates = in_layers[:, None] & np.isin(result["head"], select_indices(heads, result.sizes["head"], "head"))
    correlation = np.nan_to_num(result.correlation.values, nan=np.inf)
    at = np.argwhere(candidates)
    order = np.argsort(correlation[candidates], kind="stable")
    return [(int(result["layer"][layer]), int(result["head"][head])) for layer, head in at[order]]


def _head(result: xr.Dataset, nullity: xr.DataArray, layer: int, head: int) -> HeadSummary:
    numbers = result.sel(layer=layer, head=head)
    return HeadSummary(
        layer=layer,
        head=head,
        nullity=int(nullity.sel(layer=layer, head=head)),
        null_mass=float(numbers.null_mass),
        correlation=float(numbers.correlation),
        raw=_top(numbers.raw_received) if "raw_received" in numbers else (),
        effective=_top(numbers.effective_received),
    )


def _top(received: xr.DataArray) -> tuple[Received, ...]:
    """The keys with the largest absolute mean, since effective attention may be negative."""
    order = np.argsort(-np.abs(received.values), kind="stable")[:TOP_TOKENS]
    return tuple(Received(str(received.key_token.values[key]), int(key), float(received.values[key])) for key in order)
