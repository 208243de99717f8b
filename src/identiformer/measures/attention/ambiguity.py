"""Certified bounds on the weights of a head, over all attention with the same output, and alternatives that reach them."""

from dataclasses import astuple
from typing import Any

import numpy as np
import torch
import xarray as xr

from identiformer.equations import maximum_entropy_attention
from identiformer.equations.certificates.alternatives import (
    farthest_alternative,
    null_alternative,
    sparsest_alternative,
    total_variation_bound,
)
from identiformer.equations.certificates.contributions import contribution_bounds, set_contribution_bounds
from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.intervals import certify_argmax, feasible_sets
from identiformer.errors import InputError
from identiformer.measures.indices import Indices, TokenSets, select_indices, token_sets
from identiformer.progress import WorkBar, work_bar
from identiformer.results import make_result
from identiformer.results.schema import VARIABLES
from identiformer.trace import Trace

ALTERNATIVES = ("null_direction", "sparsest", "farthest", "maximum_entropy", "rival")
CONTRIBUTIONS = ("contribution", "contribution_low", "contribution_high")
ENDS = ("low", "high", "low_reached", "high_reached", "confirmed")
TOLERANCES = {torch.bfloat16: 1e-2, torch.float16: 2e-3}
"""Relative change of the output that counts as none; 1e-4 in other precisions."""


def default_tolerance(dtype: torch.dtype) -> float:
    """The tolerance for values of this precision."""
    return TOLERANCES.get(dtype, 1e-4)


Row = dict[str, Any]
"""The variables of one query, without that axis."""


def ambiguity(
    trace: Trace,
    layer: int,
    head: int,
    *,
    queries: Indices | None = None,
    keys: Indices | None = None,
    top: int | None = None,
    sets: TokenSets | None = None,
    tolerance: float | None = None,
    exact: bool = False,
    alternatives: bool = True,
    kind: str | None = None,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Compute certified bounds on each weight of a head over all attention rows with the same output. §3.1.

    Parameters
    ----------
    trace : Trace
        With recorded weights.
    layer, head : int
        The head; layers count from 1, heads from 0.
    queries : int or sequence of int, optional
        Rows to certify; all by default.
    keys : int or sequence of int, optional
        Keys whose weights are bounded; all by default.
    top : int, optional
        Bound only the N largest weights among the keys.
    sets : str, sequence of str, or mapping of str to positions, optional
        Sets of keys whose summed weight is bounded: token texts, each of which means all keys with that text, or a mapping
        from names to positions.
    tolerance : float, optional
        Relative change of the output, after the output projection, that counts as none: 1e-4 by default (1e-2 for bfloat16,
        2e-3 for float16), at least 1e-12.
    exact : bool
        Require the same output to the rounding of float64 and up to the numerical rank of the values. On real models such
        certificates are brittle.
    alternatives : bool
        Whether to search for alternative attention and bound the total variation.
    kind : str, optional
        Attention type; the first of the trace by default.
    progress : bool or WorkBar
        Whether to show a progress bar, or the one to advance.

    Returns
    -------
    xarray.Dataset
        Over (query, key): `raw`, the weights; `low` and `high`, certified: no row with the same output exceeds them;
        `low_reached` and `high_reached`, attained by such rows; `confirmed`, whether their programs were solved to optimality;
        NaN for keys that are not selected or not visible. `contribution` to the head's output, which sums to 1 over keys, and
        its certified `contribution_low` and `contribution_high`; `norm_share`, the norm of what the key writes as a share of
        the row; NaN where the output is zero. Over (set, query): `set_low`, `set_high`, `set_low_reached`, `set_high_reached`,
        `set_confirmed`, `set_contribution`, `set_contribution_low` and `set_contribution_high`, the same for sets. Over (query):
        `largest`, the key with the largest weight; `argmax_certified`, whether it is the largest in every such row; `rival`, a
        key that is larger in one of them, or -1; `ranking_certified`, the share of pairs of selected keys whose order is
        certified; `dimension` of the rows with exactly this output; `gap`, the last singular value kept over the first one
        dropped; `total_variation_low`, of the farthest alternative, and `total_variation_high`, certified. Over (alternative,
        query, key): `alternatives`, rows with the same output: along a null direction as in the paper, the sparsest and the
        farthest that were found, that of maximum entropy, and one in which the rival is largest; NaN if none was found. Over
        (alternative, query): their `total_variation`, relative `output_change`, and `support`, the number of keys.

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his.")
    >>> bounds = idf.ambiguity(trace, layer=4, head=3, queries=2, alternatives=False)
    >>> bool((bounds.low <= bounds.raw + 1e-6).all() and (bounds.raw <= bounds.high + 1e-6).all())
    True
    """
    stack = trace.stack(kind)
    record = trace.layer(layer, kind).recorded()
    (head,) = select_indices(head, record.heads, "head")
    queries = select_indices(queries, len(stack.queries), "query")
    keys = select_indices(keys, len(stack.keys), "key")
    if top is not None and top < 1:
        raise InputError(f"expected top to be at least 1, got {top}.")
    members = token_sets(sets, stack.keys)
    if exact and tolerance:
        raise InputError(f"expected a tolerance or exact=True, got exact=True and tolerance={tolerance:g}; leave one out.")
    if tolerance is None:
        tolerance = 0.0 if exact else default_tolerance(record.values.dtype)
    one = record.head(head).rows(queries)
    weights, options = one.weights, {"projection": one.projection, "sink": one.sink}
    feasible_rows = feasible_sets(weights, one.values, one.visible, tolerance=tolerance, **options)
    rows: dict[int, Row] = {}
    with work_bar("certifying", progress) as bar:
        steps_per_row = min(len(keys), top or len(keys)) + 1
        bar.expect(steps_per_row * len(queries))
        for index, visible, feasible in feasible_rows:
            selected = np.isin(visible, keys)
            if top is not None:
                selected &= np.argsort(np.argsort(-np.where(selected, feasible.row, -1.0), kind="stable")) < top
            rows[index] = _certify(feasible, visible, selected, members, len(stack.keys), bar)
            if alternatives:
                _add_alternatives(rows[index], feasible, visible)
            bar.advance(steps_per_row - int(selected.sum()))
    arrays = _stack_rows([rows[index] for index in range(len(queries))])
    arrays["raw"] = weights.double().numpy(force=True)
    if alternatives:
        arrays |= _compare_alternatives(arrays["alternatives"], arrays["raw"])
    coordinates = {
        "query": queries,
        "key": np.arange(len(stack.keys)),
        "query_token": ("query", np.array(stack.queries.texts)[queries]),
        "key_token": ("key", np.array(stack.keys.texts)),
        **({"set": list(members)} if members else {}),
        **({"alternative": list(ALTERNATIVES)} if alternatives else {}),
        "layer": layer,
        "head": head,
    }
    settings = {"kind": stack.kind, "layer": layer, "head": head, "tolerance": tolerance, "top": top}
    return make_result("ambiguity", arrays, coordinates, trace.source, settings)


def _certify(
    feasible: FeasibleSet, visible: np.ndarray, selected: np.ndarray, sets: dict[str, list[int]], keys: int, bar: WorkBar
) -> Row:
    """Bounds of the selected weights of one row, and what follows for its largest weight."""
    ends = np.full((len(ENDS), keys), np.nan)
    for key in np.flatnonzero(selected).tolist():
        ends[:, visible[key]] = astuple(feasible.interval(np.eye(1, len(visible), key)[0]))
        bar.advance(1)
    row: Row = {**dict(zip(ENDS, ends, strict=True)), "confirmed": ends[-1] == 1}
    if sets:
        intervals = [feasible.interval(np.isin(visible, members).astype(np.float64)) for members in sets.values()]
        set_ends = np.array([astuple(interval) for interval in intervals], np.float64).T
        row |= {f"set_{name}": values for name, values in zip(ENDS, set_ends, strict=True)}
        row["set_confirmed"] = set_ends[-1] == 1
        row |= _set_contributions(feasible, [np.isin(visible, members) for members in sets.values()])
    low, high = ends[0, visible], ends[1, visible]
    row |= _contributions(feasible, low, high, visible, keys)
    verdict = certify_argmax(feasible, low, high)
    return row | {
        "largest": np.int64(visible[verdict.argmax]),
        "argmax_certified": bool(verdict.certified),
        "rival": np.int64(-1 if verdict.rival is None else visible[verdict.rival]),
        "rival_row": verdict.row if verdict.rival is not None else None,
        "ranking_certified": _ranking_certified(low[selected], high[selected]),
        "dimension": np.int64(feasible.dimension),
        "gap": float(feasible.coordinates.gap),
    }


def _contributions(feasible: FeasibleSet, low: np.ndarray, high: np.ndarray, visible: np.ndarray, keys: int) -> Row:
    """The contributions of all visible keys to the output, certified bounds where weights have them, and shares of norms."""
    contributions = np.full((4, keys), np.nan)
    if feasible.output_norm:
        arrays = (torch.from_numpy(array) for array in (low, high, feasible.per_weight, feasible.relative_length))
        bounds = contribution_bounds(*arrays, tolerance=feasible.tolerance)
        norms = feasible.row * feasible.relative_length
        contributions[:, visible] = feasible.row * feasible.per_weight, bounds.low, bounds.high, norms / norms.sum()
    return dict(zip((*CONTRIBUTIONS, "norm_share"), contributions, strict=True))


def _set_contributions(feasible: FeasibleSet, members: list[np.ndarray]) -> Row:
    shares = feasible.row * feasible.per_weight if feasible.output_norm else np.full(len(feasible.row), np.nan)
    bounds = [(float(shares[chosen].sum()), *set_contribution_bounds(feasible, chosen)) for chosen in members]
    return {f"set_{name}": values for name, values in zip(CONTRIBUTIONS, np.array(bounds, np.float64).T, strict=True)}


def _ranking_certified(low: np.ndarray, high: np.ndarray) -> float:
    """The share of pairs whose intervals are disjoint, so that their order is certified."""
    pairs = len(low) * (len(low) - 1) // 2
    return float((low[:, None] > high[None, :]).sum() / pairs) if pairs else float("nan")


def _add_alternatives(row: Row, feasible: FeasibleSet, visible: np.ndarray) -> None:
    """Add alternative rows with the same output, how far they change it, and a bound on the total variation of any."""
    weights = {
        "null_direction": null_alternative(feasible),
        "sparsest": sparsest_alternative(feasible),
        "maximum_entropy": _maximum_entropy(feasible),
        "farthest": farthest_alternative(feasible),
        "rival": row["rival_row"],
    }
    row["alternatives"] = np.full((len(ALTERNATIVES), len(row["low"])), np.nan)
    for number, name in enumerate(ALTERNATIVES):
        if weights[name] is not None:
            row["alternatives"][number] = 0
            row["alternatives"][number, visible] = weights[name]
    row["output_change"] = np.array([feasible.change(alternative[visible]) for alternative in row["alternatives"]], np.float64)
    low = np.nan_to_num(row["low"][visible], nan=0.0)
    high = np.nan_to_num(row["high"][visible], nan=feasible.largest_sum)
    row["total_variation_high"] = float(total_variation_bound(feasible, low, high))


def _maximum_entropy(feasible: FeasibleSet) -> np.ndarray | None:
    values = feasible.coordinates.values
    scale = feasible.largest_sum  # rows in half precision may sum to a little more or less than one
    options = {"sink": feasible.coordinates.sink, "precision": feasible.coordinates.precision}
    row = scale * maximum_entropy_attention(torch.from_numpy(feasible.row / scale)[None], values, **options)[0].numpy()
    return None if np.isnan(row).any() else feasible.settle(row)


def _compare_alternatives(alternatives: np.ndarray, raw: np.ndarray) -> dict[str, np.ndarray]:
    total_variation = np.abs(alternatives - raw).sum(-1) / 2
    return {
        "total_variation": total_variation,
        "support": np.where(np.isnan(total_variation), -1, (alternatives > 0).sum(-1)),
        "total_variation_low": np.nanmax(total_variation, 0),
    }


def _stack_rows(rows: list[Row]) -> dict[str, np.ndarray]:
    """Join the variables of all rows along their axis of queries."""
    layout = VARIABLES["ambiguity"]
    return {name: np.stack([row[name] for row in rows], layout[name].index("query")) for name in rows[0] if name in layout}


def certified_share(
    trace: Trace,
    *,
    layers: Indices | None = None,
    rows: int = 4,
    seed: int = 0,
    kind: str | None = None,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Measure in how many rows of every head the largest weight is certified to be the largest. §3.1.

    Parameters
    ----------
    trace : Trace
        With recorded weights.
    layers : int or sequence of int, optional
        Counted from 1; all by default.
    rows : int
        Number of rows drawn at random, the same for every head; special tokens only if there are no others.
    seed : int
        Seed of the draw.
    kind : str, optional
        Attention type; the first of the trace by default.
    progress : bool or WorkBar
        Whether to show a progress bar, or the one to advance.

    Returns
    -------
    xarray.Dataset
        Over (layer, head): `certified`, the share of rows in which no attention with the same output has another largest key;
        `width`, the mean width of the certified interval of the largest weight.

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his.")
    >>> float(idf.certified_share(trace, layers=4, rows=1).certified.mean())
    1.0
    """
    stack = trace.stack(kind)
    if rows < 1:
        raise InputError(f"expected rows to be at least 1, got {rows}.")
    chosen = [stack.layers[number - 1] for number in select_indices(layers, len(stack.layers), "layer", first=1)]
    ordinary = [query for query, special in enumerate(stack.queries.special) if not special] or list(range(len(stack.queries)))
    drawn = sorted(np.random.default_rng(seed).choice(ordinary, min(rows, len(ordinary)), replace=False).tolist())
    certified, width = np.zeros((2, len(chosen), chosen[0].heads))
    with work_bar("certifying", progress) as bar:
        bar.expect(certified.size)
        for at, layer in enumerate(chosen):
            for head in range(layer.heads):
                bounds = ambiguity(trace, layer.number, head, queries=drawn, top=1, alternatives=False, kind=kind)
                certified[at, head] = float(bounds.argmax_certified.mean())
                width[at, head] = float(np.nanmax(bounds.high.values - bounds.low.values, axis=1).mean())
                bar.advance(1)
    coordinates = {"layer": [layer.number for layer in chosen], "head": np.arange(chosen[0].heads)}
    settings = {"kind": stack.kind, "rows": drawn, "seed": seed}
    return make_result("certified_share", {"certified": certified, "width": width}, coordinates, trace.source, settings)
