"""How far the attention of a head could have been different with the same output, row by row, certified."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple

import numpy as np
import torch
import xarray as xr

from identiformer.equations import maximum_entropy_attention
from identiformer.equations.attention.heads import group_of
from identiformer.equations.certificates.alternatives import (
    farthest_alternative,
    null_alternative,
    sparsest_alternative,
    total_variation_bound,
)
from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.intervals import certify_argmax, feasible_sets
from identiformer.errors import InputError
from identiformer.measures.selection import Numbers, Sets, chosen, read_sets
from identiformer.progress import WorkBar, work_bar
from identiformer.results import describe
from identiformer.results.schema import VARIABLES
from identiformer.trace import AttentionStack, RecordedLayer, Trace

ALTERNATIVES = ("null_direction", "sparsest", "farthest", "maximum_entropy", "rival")
ENDS = ("low", "high", "low_reached", "high_reached", "confirmed")
TOLERANCES = {torch.bfloat16: 1e-2, torch.float16: 2e-3}
"""What counts as the same output, as a share of its length; 1e-4 in other precisions."""


def ambiguity(
    trace: Trace,
    layer: int,
    head: int,
    *,
    query: int | np.integer | Numbers | None = None,
    keys: Numbers | None = None,
    top: int | None = None,
    sets: Sets | None = None,
    tolerance: float | None = None,
    exact: bool = False,
    alternatives: bool = True,
    kind: str | None = None,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """How far each weight of a head could lie elsewhere, as attention, with the head's output the same. §3.1.

    The output is the same when it changes by no more than `tolerance` of its length, as the output projection passes it on:
    1e-4 by default (1e-2 for a model in bfloat16, 2e-3 in float16), 1e-12 at least. With exact=True it is exactly the same, to
    the rounding of float64 and up to the numerical rank of the values; on real models such certainty is brittle.

    Over (query key): `raw`; `low` and `high`, certain: no such row leaves them; `low_reached` and `high_reached`: rows at hand
    reach these; `confirmed`: the bounds are met, not only safe. NaN where not asked or not visible.
    Over (set query): `set_low` … `set_confirmed`, the same for the summed weight of a set of keys.
    Over query: `largest`, the key with the largest weight; `argmax_certified`, whether it is the largest in every such row;
    `rival`, a key that is larger in one of them (-1: none found); `ranking_certified`, the share of pairs of asked keys whose
    order is certain; `dimension` of the rows with exactly this output, and `gap`, how clearly the rank behind it is told
    (the last singular value kept over the first one dropped); `total_variation_low` and `_high`: the farthest row found and
    what none can exceed.
    Over (alternative query key): `alternatives`, other rows with the same output: the paper's along a null direction, the
    sparsest and the farthest found, the one of maximum entropy, and one in which the rival is largest; NaN where there
    is none. Their `total_variation`, `output_change` (relative) and `support` (how many keys) over (alternative query).

    layer: counted from 1. query: one, several or (default) all. keys: only these; top: of them only so many of the largest.
    sets: token texts, each standing for all keys with that text, or a mapping from names to keys.
    alternatives: whether to look for them, and for the bounds on total variation.
    """
    stack = trace.stack(kind)
    record = trace.layer(layer, kind).recorded()
    (head,) = chosen([head], record.heads, "head")
    several = query if query is None or isinstance(query, Sequence) else np.atleast_1d(query).tolist()
    queries = chosen(several, len(stack.queries), "query")
    asked = chosen(keys, len(stack.keys), "key")
    if top is not None and top < 1:
        raise InputError(f"expected top to be at least 1, got {top}.")
    named = read_sets(sets, stack.keys)
    if exact and tolerance:
        raise InputError(f"expected a tolerance or exact=True, got both, the tolerance being {tolerance:g}; leave one out.")
    if tolerance is None:
        tolerance = 0.0 if exact else TOLERANCES.get(record.values.dtype, 1e-4)
    result = _Result(record, head, queries, named, stack)
    rows = _feasible_sets(record, head, queries, tolerance)
    with work_bar("certifying", progress) as bar:
        a_row = min(len(asked), top or len(asked)) + 1
        bar.expect(a_row * len(queries))
        for place, seen, feasible in rows:
            wanted = np.isin(seen, asked)
            if top is not None:
                wanted &= np.argsort(np.argsort(-np.where(wanted, feasible.row, -1.0), kind="stable")) < top
            _certify(result, place, seen, feasible, wanted, bar)
            if alternatives:
                _look_for_alternatives(result, place, seen, feasible)
            bar.advance(a_row - int(wanted.sum()))
    settings = {"kind": stack.kind, "layer": layer, "head": head, "tolerance": tolerance, "top": top}
    return describe(result.dataset(alternatives), "ambiguity", trace.source, settings)


def _feasible_sets(
    record: RecordedLayer, head: int, queries: list[int], tolerance: float
) -> Iterator[tuple[int, np.ndarray, FeasibleSet]]:
    rows = torch.tensor(queries)
    return feasible_sets(
        record.weights[head, rows],
        record.values[group_of(head, record.heads, len(record.values))],
        record.visible.rows(rows),
        tolerance=tolerance,
        projection=None if record.projection is None else record.projection[head],
        sink=record.sink,
    )


class _Result:
    """The arrays of a result, filled row by row."""

    def __init__(
        self, record: RecordedLayer, head: int, queries: list[int], sets: dict[str, list[int]], stack: AttentionStack
    ) -> None:
        self.record, self.head, self.queries, self.sets, self.stack = record, head, queries, sets, stack
        rows, keys = len(queries), len(stack.keys)
        self.raw = record.weights[head, queries].double().numpy()
        self.ends = np.full((len(ENDS), rows, keys), np.nan)
        self.set_ends = np.full((len(ENDS), len(sets), rows), np.nan)
        self.numbers = {
            "largest": np.zeros(rows, dtype=np.int64),
            "argmax_certified": np.zeros(rows, dtype=bool),
            "rival": np.full(rows, -1),
            "ranking_certified": np.full(rows, np.nan),
            "dimension": np.zeros(rows, dtype=np.int64),
            "gap": np.full(rows, np.nan),
        }
        self.bound = np.full(rows, np.nan)
        self.alternatives = np.full((len(ALTERNATIVES), rows, keys), np.nan)
        self.change = np.full((len(ALTERNATIVES), rows), np.nan)

    def dataset(self, with_alternatives: bool) -> xr.Dataset:
        arrays: dict[str, np.ndarray] = {"raw": self.raw, **dict(zip(ENDS, self.ends, strict=True)), **self.numbers}
        arrays["confirmed"] = self.ends[-1] == 1
        if self.sets:
            arrays |= {f"set_{name}": array for name, array in zip(ENDS, self.set_ends, strict=True)}
            arrays["set_confirmed"] = self.set_ends[-1] == 1
        if with_alternatives:
            moved = np.abs(self.alternatives - self.raw).sum(-1) / 2
            arrays |= {
                "alternatives": self.alternatives,
                "total_variation": moved,
                "output_change": self.change,
                "support": np.where(np.isnan(moved), -1, (self.alternatives > 0).sum(-1)),
                "total_variation_low": np.nanmax(moved, 0),
                "total_variation_high": self.bound,
            }
        layout = VARIABLES["ambiguity"]
        coordinates = {
            "query": self.queries,
            "key": np.arange(len(self.stack.keys)),
            "query_token": ("query", np.array(self.stack.queries.texts)[self.queries]),
            "key_token": ("key", np.array(self.stack.keys.texts)),
            "layer": self.record.number,
            "head": self.head,
        }
        coordinates |= {"set": list(self.sets)} if self.sets else {}
        coordinates |= {"alternative": list(ALTERNATIVES)} if with_alternatives else {}
        return xr.Dataset({name: (dims, arrays[name]) for name, dims in layout.items() if name in arrays}, coordinates)


def _certify(result: _Result, place: int, seen: np.ndarray, feasible: FeasibleSet, wanted: np.ndarray, bar: WorkBar) -> None:
    """Intervals of the weights that are asked for, and what follows from them."""
    own = result.ends[:, place]
    for key in np.flatnonzero(wanted).tolist():
        own[:, seen[key]] = astuple(feasible.interval(np.eye(1, len(seen), key)[0]))
        bar.advance(1)
    for number, members in enumerate(result.sets.values()):
        result.set_ends[:, number, place] = astuple(feasible.interval(np.isin(seen, members).astype(np.float64)))
    low, high = own[0, seen], own[1, seen]
    verdict = certify_argmax(feasible, low, high)
    numbers = {
        "largest": seen[verdict.argmax],
        "argmax_certified": verdict.certified,
        "rival": -1 if verdict.rival is None else seen[verdict.rival],
        "ranking_certified": _ranking_certified(low[wanted], high[wanted]),
        "dimension": feasible.dimension,
        "gap": feasible.coordinates.gap,
    }
    for name, number in numbers.items():
        result.numbers[name][place] = number
    if verdict.rival is not None:
        result.alternatives[ALTERNATIVES.index("rival"), place] = 0
        result.alternatives[ALTERNATIVES.index("rival"), place, seen] = verdict.row


def _ranking_certified(low: np.ndarray, high: np.ndarray) -> float:
    """The share of pairs whose intervals do not meet: at least so much of the order is certain."""
    pairs = len(low) * (len(low) - 1) // 2
    return float((low[:, None] > high[None, :]).sum() / pairs) if pairs else float("nan")


def _look_for_alternatives(result: _Result, place: int, seen: np.ndarray, feasible: FeasibleSet) -> None:
    low, high = (
        np.nan_to_num(end[seen], nan=rest) for end, rest in zip(result.ends[:2, place], (0.0, feasible.largest_sum), strict=True)
    )
    found = {
        "null_direction": null_alternative(feasible),
        "sparsest": sparsest_alternative(feasible),
        "maximum_entropy": _most_even(feasible),
        "farthest": farthest_alternative(feasible),
    }
    for alternative, row in found.items():
        if row is not None:
            result.alternatives[ALTERNATIVES.index(alternative), place] = 0
            result.alternatives[ALTERNATIVES.index(alternative), place, seen] = row
    for number in range(len(ALTERNATIVES)):
        result.change[number, place] = feasible.change(result.alternatives[number, place, seen])
    result.bound[place] = total_variation_bound(feasible, low, high)


def _most_even(feasible: FeasibleSet) -> np.ndarray | None:
    values = feasible.coordinates.values
    scale = feasible.largest_sum  # rows in half precision may sum to a little more or less than one
    options = {"sink": feasible.coordinates.sink, "precision": feasible.coordinates.precision}
    row = scale * maximum_entropy_attention(torch.from_numpy(feasible.row / scale)[None], values, **options)[0].numpy()
    return None if np.isnan(row).any() else feasible.settle(row)
