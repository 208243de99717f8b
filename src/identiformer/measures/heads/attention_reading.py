"""The reading of an attention map: whether each weight is certified, contributes, and is attributed to its token."""

from math import prod

import xarray as xr

from identiformer.measures.effective import check_budget
from identiformer.measures.heads.heads import REMEDY, Heads
from identiformer.measures.heads.own_content import self_contributions
from identiformer.measures.heads.stream import check_tolerance, read_heads
from identiformer.measures.heads.table import BYTES, HeadTable
from identiformer.measures.indices import Indices
from identiformer.progress import WorkBar
from identiformer.trace import Trace


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
    keep_partial: bool = False,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Apply three tests to each attention weight: is it certified, does it contribute, is it attributed to the token. §3, §5.

    A weight is *certified* up to its lower bound over all attention with the same output. Certified weight *contributes* up to
    the key's contribution to the head's output, p_ij = a_ij·⟨v_jH, o_i⟩/‖o_i‖². The share of contributing weight that is
    *readable* is the key's self-contribution in Hidden Token Attribution. Weight that fails a test is free, noncontributing or
    mixed. Hidden Token Attribution divides sums of norms, which understates what a token decides about its own vector.

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
    keep_partial : bool
        Whether Ctrl-C during certification returns the heads certified so far instead of raising KeyboardInterrupt. Such a
        result has the attribute `complete` 0, and cannot be saved.
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
        head, key): `contributing_by_key`, the contributing share of the weight that is on each key. Over (layer, head):
        `certified`, `contributing` and `readable`, the share of the weight that passes the tests so far, a mean over
        rows; `output_share`, how much of the layer's output the head writes; `sink_share`, the weight on attention sinks,
        `sink_scale` = 1 - `sink_share`, by which sinks scale the rest, and `sink_key`, the one with most weight, or -1. NaN
        where a head's output is zero, and for heads that were not certified because of an interruption.

    Examples
    --------
    >>> import identiformer as idf
    >>> trace = idf.load("minilm").trace("He said that the pie was his.")
    >>> reading = idf.attention_reading(trace, layers=2, certify=False)
    >>> bool((abs(reading.contribution.sum("key") - 1) < 1e-5).all())
    True
    """
    every = Heads(trace, layers, heads, queries, kind)
    check_budget(BYTES * prod(every.shape), trace.memory, REMEDY)
    tolerance = check_tolerance(tolerance, every.dtype)
    table = HeadTable(every, *self_contributions(attribution, every.stack, every.layers), maps=True)
    complete = True
    try:
        for reading in read_heads(every, table.own, tolerance, certify=certify, processes=processes, progress=progress):
            table.add(reading)
    except KeyboardInterrupt:
        if not keep_partial:
            raise
        complete = False
    return table.dataset(tolerance, certify, complete)
