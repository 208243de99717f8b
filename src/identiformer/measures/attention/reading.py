"""The reading of an attention map: whether each weight is certified, contributes, and is about its token."""

from math import prod

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.attention.contributions import head_contributions, head_output_shares, is_sink
from identiformer.equations.attention.heads import group_of
from identiformer.equations.attribution.agreement import row_correlation
from identiformer.equations.certificates.contributions import CATEGORIES, Cascade, cascade, contribution_bounds
from identiformer.equations.certificates.map_bounds import MapBounds
from identiformer.errors import InputError
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.measures.attention.certification import certify_heads, head_to_certify
from identiformer.measures.attention.effective import check_budget
from identiformer.measures.indices import Indices, select_indices
from identiformer.progress import WorkBar, work_bar
from identiformer.results import describe
from identiformer.results.schema import VARIABLES
from identiformer.trace import AttentionStack, RecordedLayer, Trace

MAPS = (
    "weight", "low", "high", "contribution", "contribution_low", "contribution_high", "norm_share", "contributing_weight",
    "readable_weight",
)  # fmt: skip
SINK_SHARE = 0.1
"""A head that puts less of its weight on sinks is not called a sink head."""


def attention_reading(
    trace: Trace,
    attribution: xr.Dataset | None = None,
    *,
    layers: Indices | None = None,
    heads: Indices | None = None,
    queries: Indices | None = None,
    tolerance: float | None = None,
    certify: bool = True,
    kind: str | None = None,
    processes: int | None = None,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Apply three tests to each attention weight: is it certified, does it contribute, is it about the token. §3, §5.

    A weight is *certified* up to its lower bound over all attention with the same output. Certified weight *contributes* up to
    the key's contribution to the head's output, p_ij = a_ij·⟨v_jH, o_i⟩/‖o_i‖². The share of contributing weight that is
    *readable* is the key's self-contribution in Hidden Token Attribution, its own content. Weight that fails a test is free,
    sink or mixed.

    Parameters
    ----------
    trace : Trace
        With recorded weights, or in factored form with those of the rows to read (`Model.trace` with rows=).
    attribution : xarray.Dataset, optional
        `token_attribution` of the same text, with all layers; without it weight is not split into mixed and readable.
    layers, heads : int or sequence of int, optional
        Which to read; all by default. Layers count from 1, heads from 0.
    queries : int or sequence of int, optional
        Positions of the rows to read; all by default.
    tolerance : float, optional
        As in `ambiguity`.
    certify : bool
        Whether to compute certified bounds. Without them all weight counts as certified: an upper bound, within seconds.
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
        `contributing_weight` and `readable_weight`, how much of the weight passes two and all three tests; `category`, the
        largest part of the weight, as an index into the coordinate `part`, or -1 where it is unknown;
        `low_solved` and `high_solved`, whether a bound is the optimum of its own program. Over (layer, key):
        `self_contribution` of the vector that each key is made of, 1 at layer 1, and `self_contribution_error`. Over (layer,
        head): `certified`, `contributing` and `readable`, the share of the weight that passes the tests so far, a mean over
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
    rows = select_indices(queries, len(stack.queries), "query")
    records = [stack.layers[number - 1].recorded_rows(rows) for number in numbers]
    chosen = select_indices(heads, min(record.heads for record in records), "head")
    shape = (len(records), len(chosen), len(rows), len(stack.keys))
    check_budget((8 * len(MAPS) + 3) * prod(shape), "choose layers=, heads= or queries=, or a shorter text")
    tolerance = default_tolerance(records[0].values.dtype) if tolerance is None else tolerance
    if not 0 < tolerance < 1:
        raise InputError(f"expected a tolerance between 0 and 1, as a share of the output's length, got {tolerance:g}.")
    arrays = _contributions(records, chosen, shape)
    low, high = torch.full((2, *shape), torch.nan, dtype=torch.float64)
    solved = torch.zeros(2, *shape, dtype=torch.bool)
    if certify:
        jobs = [
            head_to_certify((layer, head), record, chosen[head], tolerance)
            for layer, record in enumerate(records)
            for head in range(len(chosen))
        ]
        with work_bar("certifying", progress) as bar:
            for layer, head, bounds in certify_heads(jobs, processes, bar):
                low[layer, head], high[layer, head] = bounds.low, bounds.high
                solved[:, layer, head] = torch.stack([bounds.low_solved, bounds.high_solved])
        arrays |= {"low_solved": solved[0], "high_solved": solved[1]}
    else:
        visible = torch.stack([record.visible.dense() for record in records])[:, None]
        low = high = torch.where(visible, arrays["weight"], torch.nan)
    self_contribution, error = self_contributions(attribution, stack, numbers)
    ends = contribution_bounds(low, high, arrays.pop("per_weight"), arrays.pop("relative_length"), tolerance if certify else 0.0)
    arrays |= {"low": low, "high": high, "contribution_low": ends.low, "contribution_high": ends.high}
    arrays |= {"self_contribution": self_contribution, "self_contribution_error": error}
    arrays |= _passed(arrays) | _sinks(arrays)
    coordinates = {
        "layer": numbers,
        "head": chosen,
        "query": rows,
        "key": np.arange(shape[3]),
        "query_token": ("query", [stack.queries.texts[row] for row in rows]),
        "key_token": ("key", list(stack.keys.texts)),
        "query_special": ("query", [stack.queries.special[row] for row in rows]),
        "key_special": ("key", list(stack.keys.special)),
        "part": list(CATEGORIES),
    }
    layout = VARIABLES["attention_reading"].items()
    result = xr.Dataset({name: (dims, arrays[name].numpy()) for name, dims in layout if name in arrays}, coordinates)
    projected = all(record.stored_projection is not None for record in records)
    settings = {
        "kind": stack.kind,
        "tolerance": tolerance,
        "certified": certify,
        "rows": "all" if len(rows) == len(stack.queries) else "chosen",
        "output": "projected" if projected else "values",
    }
    return describe(result, "attention_reading", trace.source, settings)


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


def self_contributions(attribution: xr.Dataset | None, stack: AttentionStack, numbers: list[int]) -> tuple[Tensor, Tensor]:
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


def read_bounds(record: RecordedLayer, head: int, bounds: MapBounds, tolerance: float) -> Cascade:
    """How much of each weight of one head passes the first two tests, as shares of its row's weight; `readable` is NaN."""
    weights = record.weights[head].double()
    values = record.values[group_of(head, record.heads, len(record.values))].double()[None]
    projection = None if record.projection is None else record.projection[head : head + 1].double()
    found = head_contributions(weights[None], values, projection)
    ends = contribution_bounds(bounds.low, bounds.high, found.per_weight[0], found.relative_length[0], tolerance)
    passed = cascade(weights, bounds.low, ends.low, torch.full_like(weights, torch.nan))
    hidden = (weights == 0) & passed.certified.isnan()
    return Cascade(*(left.masked_fill(hidden, 0) / weights.sum(-1, keepdim=True) for left in passed))


def _passed(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The category of every weight, and the share of weight that passes each test: means over rows in which it is defined."""
    weights, low, contribution_low = (arrays[name] for name in ("weight", "low", "contribution_low"))
    passed = cascade(weights, low, contribution_low, arrays["self_contribution"][:, None, None])
    hidden = (weights == 0) & passed.certified.isnan()
    shares = {
        stage: (left.masked_fill(hidden, 0).sum(-1) / weights.sum(-1)).nanmean(-1) for stage, left in passed._asdict().items()
    }
    maps = {"contributing_weight": passed.contributing, "readable_weight": passed.readable}
    return {"category": passed.category(weights).to(torch.int8), **maps, **shares}


def _sinks(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weight on attention sinks, a mean over rows, and the key that takes most of it."""
    weights, contribution, norm_share = (arrays[name] for name in ("weight", "contribution", "norm_share"))
    on_sinks = torch.where(is_sink(weights, contribution, norm_share), weights, 0.0)
    share, received = on_sinks.sum(-1).mean(-1), on_sinks.sum(-2)
    sink_key = torch.where(received.any(-1), received.argmax(-1), -1)
    return {"sink_share": share, "sink_scale": 1 - share, "sink_key": sink_key}


def with_agreement(result: xr.Dataset, trace: Trace, effect: xr.DataArray) -> xr.Dataset:
    """Add the mean correlation over rows of each head's weights and contributions with the effects of value zeroing."""
    rows = torch.tensor(result["query"].values.tolist())
    visible = torch.stack([trace.layer(layer).visible.rows(rows).dense() for layer in result["layer"].values.tolist()])[:, None]
    effects = torch.from_numpy(effect.sel(target=result["query"].values).values)[:, None].expand(result.weight.shape)
    maps = {"raw_agreement": result.weight, "contribution_agreement": result.contribution}
    correlations = {
        name: row_correlation(effects, torch.from_numpy(entries.values).abs(), visible).nanmean(-1).numpy()
        for name, entries in maps.items()
    }
    return result.assign({name: (("layer", "head"), values) for name, values in correlations.items()})
