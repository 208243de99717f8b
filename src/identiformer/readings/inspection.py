"""What a person should know of one text's attention before reading it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from identiformer.errors import InputError
from identiformer.measures.attention.certified_share import certified_share
from identiformer.measures.attention.effective import effective_attention
from identiformer.models import Model
from identiformer.readings.certificate import Certificate, certify_head
from identiformer.trace import RecordedLayer, Trace
from identiformer.typed_json import finite_or_null

TOP_TOKENS = 3


@dataclass(frozen=True)
class LayerSummary:
    """One row of the table."""

    layer: int
    heads_with_null_space: int
    mean_nullity: float
    mean_null_mass: float
    mean_correlation: float


@dataclass(frozen=True)
class Received:
    """A token and the mean attention that it receives, over all queries."""

    token: str
    position: int
    mean: float


@dataclass(frozen=True)
class HeadSummary:
    """One head: how little its raw map shows of what the output sees, and where each map points."""

    layer: int
    head: int
    nullity: int
    null_mass: float
    correlation: float
    raw: tuple[Received, ...]
    effective: tuple[Received, ...]

    def sentence(self) -> str:
        """Where each map points, in words."""
        raw, effective = (", ".join(f"{each.token} {each.mean:+.2f}" for each in side) for side in (self.raw, self.effective))
        numbers = f"correlation {self.correlation:.2f}, null mass {self.null_mass:.0%}"
        pointed = f"raw attention points at {raw}; " if raw else ""
        return f"Layer {self.layer}, head {self.head} ({numbers}): {pointed}effective attention at {effective}."


@dataclass(frozen=True)
class Inspection:
    """The findings on one text, in the order in which they are told."""

    model: str
    tokens: int
    heads: int
    heads_with_null_space: int
    largest_nullity: int
    head_width: int
    layers: tuple[LayerSummary, ...]
    misleading: tuple[HeadSummary, ...]
    result: xr.Dataset
    certificates: tuple[Certificate, ...] = ()
    """What was put to the test of those heads, where that was asked for."""
    certified: xr.Dataset | None = None
    """Of some rows of every head, how many have a largest weight that is certain; where that was asked for."""

    def sentences(self) -> list[str]:
        """The findings in words."""
        return [*self._what_is_seen(), *self._what_is_certain()]

    def _what_is_certain(self) -> list[str]:
        if self.certified is None:
            return []
        rows = len(json.loads(self.certified.attrs["settings"])["rows"])
        share = float(self.certified.certified.mean())
        return [
            f"Of {rows} rows of every head, drawn by chance, {share:.0%} have a largest weight that is certain to be the largest."
        ]

    def _what_is_seen(self) -> list[str]:
        here = f"on these {self.tokens} tokens (a head is {self.head_width} wide)"
        if not self.heads_with_null_space:
            return [
                f"None of the {self.heads} heads has a null space {here}: the output sees every attention weight, and raw and "
                "effective attention are the same."
            ]
        told = (
            f"{self.heads_with_null_space} of {self.heads} heads have a null space {here}: up to {self.largest_nullity} "
            "dimensions of a row of attention cannot be seen in the head's output."
        )
        worst = self.misleading[0] if self.misleading else None
        if worst is None or np.isnan(worst.correlation):
            return [told]
        return [
            told,
            f"Raw attention misleads most in layer {worst.layer}, head {worst.head}: it correlates {worst.correlation:.2f} with "
            f"the part that the output sees, and {worst.null_mass:.0%} of a row's squared weight is invisible.",
        ]

    def as_json(self) -> dict[str, Any]:
        """The findings as plain numbers and words."""
        apart = ("result", "certificates", "certified", "layers", "misleading")
        fields = {name: value for name, value in vars(self).items() if name not in apart}
        tables = {name: [asdict(row) for row in getattr(self, name)] for name in ("layers", "misleading")}
        certificates = {"certificates": [each.as_json() for each in self.certificates]} if self.certificates else {}
        if self.certified is not None:
            certificates["certified_share"] = self.certified.certified.values.tolist()
        told = {"sentences": self.sentences(), "provenance": self.result.attrs}
        return finite_or_null({**fields, **tables, **certificates, **told})


def inspect_text(
    trace: Trace, *, layer: int | None = None, head: int | None = None, shown: int = 3, kind: str | None = None
) -> Inspection:
    """Find the heads of a trace whose raw attention misleads most, or look at those of a given layer or head.

    A head misleads the more, the less its raw map correlates with its effective one.
    """
    result = effective_attention(trace, kind=kind)
    if "correlation" not in result:
        raise InputError("inspection needs raw norms; trace the text with form='weights' or raw_norms=True.")
    if layer is not None and layer not in result["layer"]:
        raise InputError(f"expected a layer from 1 to {result.sizes['layer']}, got {layer}.")
    if head is not None and head not in result["head"]:
        raise InputError(f"expected a head from 0 to {result.sizes['head'] - 1}, got {head}.")
    nullity = result.nullity.max("query")
    return Inspection(
        model=str(result.attrs["model"]),
        tokens=result.sizes["key"],
        heads=nullity.size,
        heads_with_null_space=int((nullity > 0).sum()),
        largest_nullity=int(nullity.max()),
        head_width=_head_width(trace, kind),
        layers=tuple(_layer(result, nullity, int(number)) for number in result["layer"]),
        misleading=tuple(_head(result, nullity, *place) for place in _order(result, nullity, layer, head)[:shown]),
        result=result,
    )


def certify(inspection: Inspection, model: Model, trace: Trace, *, kind: str | None = None, progress: bool = False) -> Inspection:
    """Put the heads that an inspection shows to the test: intervals, and the model run with another attention.

    Of all heads, some rows: how many have a largest weight that is certain.
    """
    heads = [(head.layer, head.head) for head in inspection.misleading]
    certificates = tuple(certify_head(model, trace, *place, kind=kind, progress=progress) for place in heads)
    share = certified_share(trace, kind=kind, progress=progress)
    return replace(inspection, certificates=certificates, certified=share)


def _head_width(trace: Trace, kind: str | None) -> int:
    record = trace.layer(1, kind)
    return record.values.shape[-1] if isinstance(record, RecordedLayer) else record.effective().basis.shape[-1]


def _layer(result: xr.Dataset, nullity: xr.DataArray, number: int) -> LayerSummary:
    one = result.sel(layer=number)
    return LayerSummary(
        layer=number,
        heads_with_null_space=int((nullity.sel(layer=number) > 0).sum()),
        mean_nullity=float(one.nullity.mean()),
        mean_null_mass=float(one.null_mass.mean()),
        mean_correlation=float(one.correlation.mean()),
    )


def _order(result: xr.Dataset, nullity: xr.DataArray, layer: int | None, head: int | None) -> Sequence[tuple[int, int]]:
    """The heads asked for, most misleading first; without a wish, those that have a null space."""
    places = [
        (float(result.correlation.sel(layer=each_layer, head=each_head)), int(each_layer), int(each_head))
        for each_layer in (result["layer"].values if layer is None else [layer])
        for each_head in (result["head"].values if head is None else [head])
        if layer is not None or head is not None or int(nullity.sel(layer=each_layer, head=each_head)) > 0
    ]
    return [place[1:] for place in sorted(places, key=lambda place: (np.isnan(place[0]), place))]


def _head(result: xr.Dataset, nullity: xr.DataArray, layer: int, head: int) -> HeadSummary:
    one = result.sel(layer=layer, head=head)
    return HeadSummary(
        layer=layer,
        head=head,
        nullity=int(nullity.sel(layer=layer, head=head)),
        null_mass=float(one.null_mass),
        correlation=float(one.correlation),
        raw=_top(one.raw_received) if "raw_received" in one else (),
        effective=_top(one.effective_received),
    )


def _top(received: xr.DataArray) -> tuple[Received, ...]:
    """The keys that receive most, by absolute mean, since effective attention may be negative."""
    order = np.argsort(-np.abs(received.values), kind="stable")[:TOP_TOKENS]
    return tuple(Received(str(received.key_token.values[key]), int(key), float(received.values[key])) for key in order)
