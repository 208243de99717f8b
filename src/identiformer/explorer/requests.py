"""Check what a page requests, and turn it into work: the tasks that a page can start are in `task`."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from reprlib import repr as short  # of a value that may be large or deep
from typing import Any

import numpy as np

from identiformer.equations.certificates.alternatives import total_variation
from identiformer.errors import InputError
from identiformer.explorer.jobs import Job
from identiformer.explorer.texts import OpenText
from identiformer.measures import ambiguity, move_weight, token_attribution
from identiformer.measures.attention.moved_weight import predictions
from identiformer.measures.maps.answer import answer_attribution
from identiformer.measures.maps.compute import maps
from identiformer.page.panels import (
    alternative_to_run,
    attribution_panel,
    certificate_panel,
    map_panel,
    moved_weight_panel,
    patched_run_panel,
)
from identiformer.progress import WorkBar
from identiformer.readings import answer_as_json
from identiformer.readings.sentences.patched_run import prediction_sentences

MOST_DIGITS = 9
"""Of an integer; no text has more layers, heads or tokens."""
ROUNDING = 1e-6
"""Rounding of each weight on its way to the page and back."""
BACKGROUND = "read heads"
"""The task that other jobs do not wait for."""


def task(text: OpenText, request: Mapping[str, Any]) -> Callable[[Job], Any]:
    """The computation that a page requests by name; it reports its progress to a bar and returns what JSON can hold."""
    name = request.get("task")
    if name == "attribute":
        return partial(_attribute, text, _read_axis(request, "target"))
    if name == BACKGROUND:
        return lambda job: text.reader.read(job, job.show)
    if name == "map":
        return partial(_map, text, str(request.get("map")))
    if name == "answer":
        return partial(_answer, text)
    row = [_read_axis(request, axis) for axis in ("layer", "head", "query")]
    if name == "certify":
        return partial(_certify, text, *row)
    if name == "patch":
        return partial(_patch, text, *row, str(request.get("alternative")), _read_row(request.get("row")))
    if name == "move":
        keys = [_read_axis(request, key) for key in ("source", "target")]
        return partial(_move, text, *row, *keys, _read_share(request.get("share")))
    raise InputError(
        f"expected one of read heads, map, certify, patch, move, attribute, answer, got {short(name)}; reload the page."
    )


def _certify(text: OpenText, layer: int, head: int, query: int, bar: WorkBar) -> dict[str, Any]:
    """Certified bounds of a row, and the model run with the alternative that says most."""
    result = ambiguity(text.passage.trace, layer, head, queries=query, kind=text.passage.kind, progress=bar)
    panel = certificate_panel(result)
    name = alternative_to_run(result)
    if name is None:
        return panel
    row = np.array(panel["alternatives"][name]["row"], dtype=np.float64)
    return {**panel, "patched_run": _patch(text, layer, head, query, name, row, bar)}


def _patch(text: OpenText, layer: int, head: int, query: int, alternative: str, row: np.ndarray, bar: WorkBar) -> dict[str, Any]:
    """Run the model with one row of a head replaced."""
    weights = text.passage.trace.layer(layer, text.passage.kind).recorded().weights
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
    rerun = text.passage.rerun({(layer, head): patched})
    panel = patched_run_panel(alternative, moved, rerun.output)
    predicted = predictions(text.passage.model, rerun, [query])
    return {**panel, "sentences": [*panel["sentences"], *prediction_sentences(predicted)]}


def _attribute(text: OpenText, target: int, bar: WorkBar) -> dict[str, Any]:
    """Contributions of all input tokens to the hidden vectors of one: in reverse mode, which takes few passes for one token."""
    result = token_attribution(text.passage.model, text.passage, targets=target, progress=bar)
    return attribution_panel(result, text.corpus)


def _map(text: OpenText, name: str, bar: WorkBar) -> dict[str, Any]:
    """One of the maps of the field, and the mean of raw attention over heads."""
    passage = text.passage
    if passage.tensor is not None:
        raise InputError(f"expected a text for maps of the field, got an image for {passage.model.name}; reload the page.")
    bar.expect(1)
    result = maps(passage.model, passage, kinds=["raw", name])
    if "importance" in result:
        raise InputError(f"expected a map of each layer, got {name!r}, which explains the output; reload the page.")
    panel = map_panel(result, name)
    return {"raw": panel["raw"], "other": panel[name]}


def _answer(text: OpenText, bar: WorkBar) -> dict[str, Any]:
    """What each token of an answer drew on."""
    answer = text.passage.answer
    if answer is None:
        raise InputError("expected an answer that the model wrote, got a text; start the explorer with --generate.")
    return answer_as_json(answer, answer_attribution(text.passage.model, text.passage, progress=bar))


def _move(
    text: OpenText, layer: int, head: int, query: int, source: int, target: int, share: float, bar: WorkBar
) -> dict[str, Any]:
    """Run the model with the weight of one row moved from the first key to the second."""
    bar.expect(1)
    passage = text.passage
    moved = move_weight(passage.model, passage, layer, head, query, source, target, share=share, kind=passage.kind)
    return moved_weight_panel(moved)


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


def _read_axis(request: Mapping[str, Any], axis: str) -> int:
    return read_integer(request.get(axis), axis)


def _read_row(row: Any) -> np.ndarray:
    """A row of attention weights."""
    if not isinstance(row, list) or not all(type(weight) in (int, float) and 0 <= weight <= 1 for weight in row):
        raise InputError(f"expected a row of weights from 0 to 1, got {short(row)}; reload the page.")
    return np.array(row, dtype=np.float64)


def _read_share(share: Any) -> float:
    """How much of a key's weight to move."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"expected a share of a weight, above 0 and at most 1, got {short(share)}; reload the page.")
    return float(share)
