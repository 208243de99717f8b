"""The reading of an attention map: whether each weight is certified, contributes, and is about its token."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import joblib
import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.attention.contributions import head_contributions, head_output_shares, is_sink
from identiformer.equations.attention.heads import group_of
from identiformer.equations.attention.visibility import Visibility
from identiformer.equations.certificates.contributions import CATEGORIES, cascade, contribution_bounds
from identiformer.equations.certificates.map_bounds import MapBounds, map_bounds
from identiformer.errors import InputError, MemoryBudgetError
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.measures.indices import Indices, select_indices
from identiformer.progress import WorkBar, work_bar
from identiformer.results import describe
from identiformer.results.schema import VARIABLES
from identiformer.trace import WEIGHTS_BUDGET, AttentionStack, RecordedLayer, Trace

MAPS = ("weight", "low", "high", "contribution", "contribution_low", "contribution_high", "norm_share")
SMALL = 10**6
"""Weights that one process certifies sooner than others would start."""


def attention_reading(
    trace: Trace,
    attribution: xr.Dataset | None = None,
    *,
    layers: Indices | None = None,
    heads: Indices | None = None,
    tolerance: float | None = None,
    certify: bool = True,
    kind: str | None = None,
    processes: int | None = None,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Apply three tests to each attention weight: is it certified, does it contribute, is it about the token. §3, §5.

    A weight is *certified* up to its lower bound over all attention with the same output. Of that it *contributes* at most what
    the key contributes to the head's output, p_ij = a_ij·⟨v_jH, o_i⟩/‖o_i‖². Of that the key's self-contribution, in Hidden
    Token Attribution, is *readable*: the token's own content. What fails a test is free, sink or mixed weight.

    Parameters
    ----------
    trace : Trace
        With recorded weights.
    attribution : xarray.Dataset, optional
        `token_attribution` of the same text, with all layers; without it weight is not split into mixed and readable.
    layers, heads : int or sequence of int, optional
        Which to read; all by default. Layers count from 1, heads from 0.
    tolerance : float, optional
        As in `ambiguity`.
    certify : bool
        Without certified bounds all weight counts as certified: an upper bound on what is readable, within seconds.
    kind : str, optional
        Attention type; the first of the trace by default.
    processes : int, optional
        Processes that certify heads; by default one for a short text, and one per core for a long one.
    progress : bool or WorkBar
        Whether to show a progress bar, or the one to advance.

    Returns
    -------
    xarray.Dataset
        Over (layer, head, query, key): `weight`; `low` and `high`, certified bounds; `contribution`, which sums to 1 over keys,
        and its certified `contribution_low` and `contribution_high`; `norm_share`, ‖a_ij·v_jH‖ as a share of the row;
        `category`, the largest part of the weight, as an index into the coordinate `part`, or -1 where it is unknown;
        `low_solved` and `high_solved`, whether a bound is the optimum of its own program. Over (layer, key):
        `self_contribution` of the vector that each key is made of, 1 at layer 1, and `self_contribution_error`. Over (layer,
        head): `certified`, `contributing` and `readable`, the share of the weight that is left after each test, a mean over
        rows; `output_share`, how much of the layer's output the head writes; `sink_share`, the weight on attention sinks,
        `sink_scale` = 1 - `sink_share`, by which sinks scale the rest, and `sink_key`, the one with most weight, or -1. NaN
        where a head's output is zero, and for heads that were not certified because the computation was interrupted.

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his.")
    >>> reading = idf.attention_reading(trace, layers=2, certify=False)
    >>> bool((abs(reading.contribution.sum("key") - 1) < 1e-5).all())
    True
    """
    stack = trace.stack(kind)
    numbers = select_indices(layers, len(stack.layers), "layer", first=1)
    records = [stack.layers[number - 1].recorded() for number in numbers]
    chosen = select_indices(heads, min(record.heads for record in records), "head")
    shape = (len(records), len(chosen), len(stack.queries), len(stack.keys))
    _check_size(shape)
    tolerance = default_tolerance(records[0].values.dtype) if tolerance is None else tolerance
    if not 0 < tolerance < 1:
        raise InputError(f"expected a tolerance between 0 and 1, as a share of the output's length, got {tolerance:g}.")
    arrays = _contributions(records, chosen, shape)
    low, high = torch.full((2, *shape), torch.nan, dtype=torch.float64)
    solved = torch.zeros(2, *shape, dtype=torch.bool)
    if certify:
        jobs = [
            _head(layer, head, record, chosen[head], tolerance)
            for layer, record in enumerate(records)
            for head in range(len(chosen))
        ]
        for layer, head, bounds in _certified(jobs, processes, prod(shape), progress):
            low[layer, head], high[layer, head] = bounds.low, bounds.high
            solved[:, layer, head] = torch.stack([bounds.low_solved, bounds.high_solved])
        arrays |= {"low_solved": solved[0], "high_solved": solved[1]}
    else:
        visible = torch.stack([record.visible.dense() for record in records])[:, None]
        low = high = torch.where(visible, arrays["weight"], torch.nan)
    self_contribution, error = _self_contribution(attribution, stack, numbers)
    ends = contribution_bounds(low, high, arrays.pop("per_weight"), arrays.pop("relative_length"), tolerance if certify else 0.0)
    arrays |= {"low": low, "high": high, "contribution_low": ends.low, "contribution_high": ends.high}
    arrays |= {"self_contribution": self_contribution, "self_contribution_error": error}
    arrays |= _passed(arrays) | _sinks(arrays)
    coordinates = {
        "layer": numbers,
        "head": chosen,
        "query": np.arange(shape[2]),
        "key": np.arange(shape[3]),
        "query_token": ("query", list(stack.queries.texts)),
        "key_token": ("key", list(stack.keys.texts)),
        "query_special": ("query", list(stack.queries.special)),
        "key_special": ("key", list(stack.keys.special)),
        "part": list(CATEGORIES),
    }
    layout = VARIABLES["attention_reading"].items()
    result = xr.Dataset({name: (dims, arrays[name].numpy()) for name, dims in layout if name in arrays}, coordinates)
    projected = all(record.projection is not None for record in records)
    settings = {
        "kind": stack.kind,
        "tolerance": tolerance,
        "certified": certify,
        "output": "projected" if projected else "values",
    }
    return describe(result, "attention_reading", trace.source, settings)


def _check_size(shape: tuple[int, ...]) -> None:
    size = (8 * len(MAPS) + 3) * prod(shape)
    if size > WEIGHTS_BUDGET:
        raise MemoryBudgetError(
            f"expected query x key arrays of at most {WEIGHTS_BUDGET / 2**30:.0f} GiB, but these would take "
            f"{size / 2**30:.1f} GiB; choose layers= or heads=, or a shorter text."
        )


def _contributions(records: list[RecordedLayer], heads: list[int], shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Weights and contributions of all chosen heads, and each head's share of its layer's output."""
    names = ("weight", "contribution", "per_weight", "relative_length", "norm_share")
    arrays = {name: torch.empty(shape, dtype=torch.float64) for name in names}
    arrays["output_share"] = torch.empty(shape[:2], dtype=torch.float64)
    for layer, record in enumerate(records):
        layer_arguments = (record.weights.double(), record.values.double(), record.projection)
        for name, values in (("weight", record.weights), *head_contributions(*layer_arguments)._asdict().items()):
            arrays[name][layer] = values[heads]
        arrays["output_share"][layer] = head_output_shares(*layer_arguments)[heads].nanmean(-1)
    return arrays


@dataclass(frozen=True)
class _Head:
    """What a process needs to certify one head."""

    layer: int
    head: int
    weights: Tensor
    values: Tensor
    visible: Visibility
    projection: Tensor | None
    sink: bool
    tolerance: float


def _head(layer: int, index: int, record: RecordedLayer, head: int, tolerance: float) -> _Head:
    """One head's part of a layer; copied, since a view would carry the whole layer to another process."""
    values = record.values[group_of(head, record.heads, len(record.values))].clone()
    projection = None if record.projection is None else record.projection[head].clone()
    return _Head(layer, index, record.weights[head].clone(), values, record.visible, projection, record.sink, tolerance)


def _certify_head(job: _Head) -> tuple[int, int, MapBounds]:
    bounds = map_bounds(job.weights, job.values, job.visible, tolerance=job.tolerance, projection=job.projection, sink=job.sink)
    return job.layer, job.head, bounds


def _certify_in_process(job: _Head) -> tuple[int, int, MapBounds]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is for the process that waits
    torch.set_num_threads(1)
    return _certify_head(job)


def _certified(
    jobs: list[_Head], processes: int | None, size: int, progress: bool | WorkBar
) -> Iterator[tuple[int, int, MapBounds]]:
    """The bounds of each head as they are computed; an interruption ends them, and what is certified is kept."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(len(jobs), (1 if size < SMALL else cores) if processes is None else processes)
    with work_bar("certifying", progress) as bar:
        bar.expect(len(jobs))
        results: Any = map(_certify_head, jobs)
        if workers > 1:
            # Unlike those of multiprocessing, these processes also start from scripts without a main guard, and are reused.
            run: Any = joblib.Parallel(workers, batch_size=1, return_as="generator_unordered")  # pyright: ignore
            results = run(joblib.delayed(_certify_in_process)(job) for job in jobs)
        try:
            for result in results:
                yield result
                bar.advance(1)
        except KeyboardInterrupt:
            return


def _self_contribution(attribution: xr.Dataset | None, stack: AttentionStack, numbers: list[int]) -> tuple[Tensor, Tensor]:
    """c_jj of the vectors that the keys of each layer are made of, and its error; 1 at layer 1, NaN where it is unknown."""
    shares, errors = np.full((2, len(numbers), len(stack.keys)), np.nan)
    layers = [] if attribution is None else attribution["layer"].values.tolist()
    if attribution is not None and attribution.sizes["source"] != len(stack.keys):
        raise InputError(
            f"expected an attribution of the same text ({len(stack.keys)} tokens), got one of {attribution.sizes['source']}."
        )
    for row, number in enumerate(numbers):
        if stack.kind == "cross":
            source = max(layers, default=None)  # keys are made of the encoder's output
        elif stack.kind == "decoder":
            source = None
        else:
            source = number - 1
        if source == 0:
            shares[row], errors[row] = 1.0, 0.0
        elif attribution is not None and source in layers:
            of_layer = attribution.sel(layer=source)
            shares[row], errors[row] = of_layer.self_contribution.values, np.diagonal(of_layer.error.values)
    return torch.from_numpy(shares), torch.from_numpy(errors)


def _passed(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The category of every weight, and the share of weight that passes each test: means over rows in which it is defined."""
    weights, low, contribution_low = (arrays[name] for name in ("weight", "low", "contribution_low"))
    passed = cascade(weights, low, contribution_low, arrays["self_contribution"][:, None, None])
    hidden = (weights == 0) & passed.certified.isnan()
    shares = {
        stage: (left.masked_fill(hidden, 0).sum(-1) / weights.sum(-1)).nanmean(-1) for stage, left in passed._asdict().items()
    }
    return {"category": passed.category(weights).to(torch.int8), **shares}


def _sinks(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weight on attention sinks, a mean over rows, and the key that takes most of it."""
    weights, contribution, norm_share = (arrays[name] for name in ("weight", "contribution", "norm_share"))
    on_sinks = torch.where(is_sink(weights, contribution, norm_share), weights, 0.0)
    share, received = on_sinks.sum(-1).mean(-1), on_sinks.sum(-2)
    sink_key = torch.where(received.any(-1), received.argmax(-1), -1)
    return {"sink_share": share, "sink_scale": 1 - share, "sink_key": sink_key}
