"""Check what a page requests, and turn it into work: the tasks that a page can start are in `task`."""

import json
import re
from collections.abc import Callable, Mapping
from reprlib import repr as short  # of a value that may be large or deep
from typing import Any

import numpy as np
import xarray as xr

from identiformer.equations.certificates.alternatives import total_variation
from identiformer.errors import InputError
from identiformer.explorer.texts import OpenText
from identiformer.measures import ambiguity, attention_reading, certified_share, token_attribution
from identiformer.page.panels import attribution_panel, certificate_panel, patched_run_panel
from identiformer.page.summary import reading_numbers
from identiformer.progress import WorkBar
from identiformer.readings import Reading
from identiformer.readings.reading import DIRECTIONS, attribute

MOST_DIGITS = 9
"""Of an integer; no text has more layers, heads or tokens."""
ROUNDING = 1e-6
"""Rounding of each weight on its way to the page and back."""
READ = ["certified", "contributing", "readable", "output_share", "sink_share", "contribution", "self_contribution"]
"""What is kept of a reading."""


def task(text: OpenText, request: Mapping[str, Any]) -> Callable[[WorkBar], Any]:
    """The computation that a page requests by name; it reports its progress to a bar and returns what JSON can hold."""
    name = request.get("task")
    if name == "attribute":
        return lambda bar: _attribute(text, bar)
    if name == "read":
        return lambda bar: _read(text, request.get("own_content") is True, bar)
    if name == "certify heads":
        return lambda bar: certified_share(text.trace, kind=text.kind, progress=bar).certified.values.tolist()
    layer, head, query = (read_integer(request.get(axis), axis) for axis in ("layer", "head", "query"))
    if name == "certify":
        return lambda bar: certificate_panel(ambiguity(text.trace, layer, head, queries=query, kind=text.kind, progress=bar))
    if name == "patch":
        row, alternative = read_row(request), str(request.get("alternative"))
        return lambda bar: _patch(text, layer, head, query, alternative, row, bar)
    raise InputError(f"expected one of read, certify, certify heads, patch, attribute, got {short(name)}; reload the page.")


def _patch(text: OpenText, layer: int, head: int, query: int, alternative: str, row: np.ndarray, bar: WorkBar) -> dict[str, Any]:
    """Run the model with one row of a head replaced."""
    weights = text.trace.layer(layer, text.kind).recorded().weights
    if not 0 <= head < len(weights) or not 0 <= query < weights.shape[1] or len(row) != weights.shape[2]:
        raise InputError(f"expected a head and a query of this text, and a row of {weights.shape[2]} weights; reload the page.")
    patched = weights[head].double().numpy().copy()
    total = patched[query].sum()
    if abs(row.sum() - total) > ROUNDING * len(row):
        raise InputError(f"expected a row of weights that sums to {total:.4g}, got {row.sum():.4g}; certify the row again.")
    row = row / row.sum() * total  # undo the rounding, which would count as a change
    moved = total_variation(row, patched[query])
    patched[query] = row
    bar.expect(1)
    patched_run = text.model.rerun(text.trace, {(layer, head): patched}, kind=text.kind)
    return patched_run_panel(alternative, moved, patched_run.output)


def _attribute(text: OpenText, bar: WorkBar) -> dict[str, Any]:
    """Contributions of all input tokens to all hidden vectors."""
    source = text.trace.source
    result = token_attribution(text.model, source["text"], source.get("pair"), truncate=True, progress=bar)
    return attribution_panel(result, text.corpus)


def _read(text: OpenText, own_content: bool, bar: WorkBar) -> dict[str, Any]:
    """The reading of every head without certified bounds, and without the tokens' own content unless it is requested."""
    source, stack = text.trace.source, text.trace.stack(text.kind)
    attribution = None
    if own_content:
        attribution = attribute(
            text.model,
            text.trace,
            source["text"],
            source.get("pair"),
            layers=None,
            kind=text.kind,
            directions=DIRECTIONS,
            truncate=True,
            progress=bar,
        )
    bar.expect(len(stack.layers))
    layers: list[xr.Dataset] = []
    for layer in stack.layers:  # one at a time, since the maps of a long text take gigabytes
        layers.append(attention_reading(text.trace, attribution, layers=layer.number, certify=False, kind=text.kind)[READ])
        bar.advance(1)
    reading = Reading(xr.concat(layers, "layer", combine_attrs="override"), (), (), ())
    numbers = reading_numbers(reading, [layer.number for layer in stack.layers], stack.layers[0].heads)
    if own_content and "readable" not in numbers:
        raise InputError(
            f"expected attention whose keys can be attributed to tokens, got {text.kind} attention of {text.model.name}; "
            "color heads by contributing instead."
        )
    return {"sentences": reading.overview(), "numbers": numbers}


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a request, with finite numbers and text that can be encoded as UTF-8."""
    try:
        value = json.loads(body)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InputError("expected text in valid Unicode, got half of a surrogate pair; remove the broken character.") from None
    except (ValueError, RecursionError):
        raise InputError("expected a JSON object with finite numbers, got something else; reload the page.") from None
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, got {short(value)}; reload the page.")
    return value


def read_integer(value: Any, name: str) -> int:
    """The number of a layer, a head or a token."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 10**MOST_DIGITS:
        raise InputError(f"expected {name} to be an integer below 10^{MOST_DIGITS}, got {short(value)}; reload the page.")
    return value


def read_integer_in_address(text: str, name: str) -> int:
    """The same, as part of an address."""
    return read_integer(int(text) if re.fullmatch(f"[0-9]{{1,{MOST_DIGITS}}}", text) else text, name)


def read_row(request: Mapping[str, Any]) -> np.ndarray:
    """A row of attention weights."""
    row = request.get("row")
    if not isinstance(row, list) or not all(type(weight) in (int, float) and 0 <= weight <= 1 for weight in row):
        raise InputError(f"expected a row of weights from 0 to 1, got {short(row)}; reload the page.")
    return np.array(row, dtype=np.float64)
