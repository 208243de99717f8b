"""Read the attention of a passage: a stream of heads becomes a reading."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import xarray as xr

from identiformer.errors import ModelWarning, UnsupportedModelError
from identiformer.measures.attention.head_certificate import certify_head
from identiformer.measures.attention.patterns import attention_patterns
from identiformer.measures.attention.sinks import sink_effects
from identiformer.measures.effective import check_budget, effective_attention
from identiformer.measures.effects.idle import idle_attention
from identiformer.measures.effects.strongest import DRAFT, strongest_weights
from identiformer.measures.heads.example import ExampleHead
from identiformer.measures.heads.heads import REMEDY, Heads
from identiformer.measures.heads.own_content import DIRECTIONS, attribute, self_contributions
from identiformer.measures.heads.reading import HeadReading
from identiformer.measures.heads.received import ReceivedAttention
from identiformer.measures.heads.statements import Statements
from identiformer.measures.heads.stream import check_tolerance, read_heads
from identiformer.measures.heads.table import BYTES, HeadTable
from identiformer.measures.indices import Indices
from identiformer.models import Model
from identiformer.models.objective import OutputTarget
from identiformer.passage import Passage
from identiformer.readings.effective import head_width
from identiformer.readings.reading import Reading
from identiformer.trace import RecordedLayer


def read(
    model: Model,
    text: Any,
    pair: str | None = None,
    *,
    layers: Indices | None = None,
    heads: Indices | None = None,
    queries: Indices | None = None,
    tolerance: float | None = None,
    certify: bool = True,
    maps: bool = False,
    directions: int = DIRECTIONS,
    target: OutputTarget = None,
    kind: str | None = None,
    truncate: bool = False,
    processes: int | None = None,
    keep_partial: bool = False,
    progress: bool = False,
) -> Reading:
    """Read the attention of a text: what it may be taken to mean.

    It begins with what the output of the model depends on: how much of the attention is idle for it, and the weights that matter
    most, each measured by removing it. Then each weight is tested: is it certified, does it contribute to what the head writes,
    and is that attributed to its token? Sinks are also tested by interventions on the model.

    Parameters
    ----------
    model : Model
    text : str, Answer, Tensor, Trace or Passage
        A text, an answer of the model, or an image for a vision model, as in `Model.trace`; or one that was read before.
    pair : str, optional
        The second text of a pair.
    layers, heads : int or sequence of int, optional
        Which to read; all by default. Layers count from 1, heads from 0.
    queries : int or sequence of int, optional
        Positions of the rows to read. By default all of a text; of an answer those that predicted its tokens: each is at the
        position before its token. Of a text so long that its trace is in factored form, as many evenly spaced rows as fit into
        the memory that the model was loaded with; self-contributions and interventions on sinks are then left out.
    tolerance : float, optional
        Relative change of a head's output that counts as none, as in `ambiguity`.
    certify : bool
        Whether to compute certified bounds; without them a reading takes seconds.
    maps : bool
        Whether `result` has every map of every head, as `attention_reading` returns them, and not only shares.
    directions : int
        Random directions per token for self-contributions, as in `token_attribution`.
    target : str, int or tuple of str, optional
        What of the output is asked about, as in `weight_effects`. Left out if layers or heads are chosen.
    kind : str, optional
        Attention type; the first of the model by default.
    truncate : bool
        Truncate a text that is longer than the model accepts.
    processes : int, optional
        Processes that certify heads; one per core by default.
    keep_partial : bool
        Whether Ctrl-C during certification returns a reading of the heads certified so far, with `interrupted` true and
        without interventions on sinks, instead of raising KeyboardInterrupt.
    progress : bool
        Show progress bars.

    Returns
    -------
    Reading
        `idle`, an `idle_attention`, and `strongest`, the `strongest_weights`; `result`, an `attention_reading`; `sinks`;
        `holding` and `failing`, the statements "query attends to key" that pass all tests best and the largest weights that fail
        one; and `sentences()`.

    Examples
    --------
    >>> import identiformer as idf
    >>> reading = idf.read(idf.load("minilm"), "He said that the pie was his.", layers=[1, 2], certify=False)
    >>> print(reading.sentences()[0])
    Before certification: of the attention of 24 of 72 heads on these 10 tokens, at most ...% contributes to what ...
    """
    passage = Passage.of(model, text, pair, truncate=truncate, kind=kind)
    options: Any = {
        "tolerance": tolerance, "certify": certify, "maps": maps, "directions": directions, "processes": processes,
        "target": target,
    }  # fmt: skip
    chosen: Any = {"layers": layers, "heads": heads, "queries": queries}
    return next(readings(passage, **chosen, **options, keep_partial=keep_partial, progress=progress))


def readings(
    passage: Passage,
    *,
    quick: bool = False,
    layers: Indices | None = None,
    heads: Indices | None = None,
    queries: Indices | None = None,
    tolerance: float | None = None,
    certify: bool = True,
    maps: bool = False,
    directions: int = DIRECTIONS,
    target: OutputTarget = None,
    processes: int | None = None,
    keep_partial: bool = False,
    progress: bool = False,
) -> Iterator[Reading]:
    """The reading of a passage, as `read` returns it; with `quick`, first one without bounds and self-contributions."""
    every = Heads.of(passage, layers, heads, queries)
    if maps:
        check_budget(BYTES * prod(every.shape), passage.model.memory, REMEDY)
    depends = layers is None and heads is None and queries is None and passage.is_recorded
    idle = idle_of(passage, target) if depends else None
    if quick:
        yield replace(glance(every), idle=idle)
    strongest = strongest_of(passage, target, certify, progress) if idle is not None else None
    tolerance = check_tolerance(tolerance, every.dtype)
    unknown = self_contributions(None, every.stack, every.layers)
    attribution = attribute(passage, every.layers, directions, progress) if passage.is_recorded else None
    known = unknown if attribution is None else self_contributions(attribution, every.stack, every.layers)
    table, statements, complete = HeadTable(every, *known, maps=maps), Statements(every), True
    example, received = ExampleHead(table), None if passage.answer is None else ReceivedAttention(every)
    try:
        for head in read_heads(every, table.own, tolerance, certify=certify, processes=processes, progress=progress):
            for collected in (table, statements, example, received):
                if collected is not None:
                    collected.add(head)
    except KeyboardInterrupt:
        if not keep_partial:
            raise
        complete = False
    sinks = statements.sinks
    if complete and passage.is_recorded:
        sinks = tuple(
            replace(sink, effects=sink_effects(passage.model, passage, sink.layer, sink.head, kind=passage.kind))
            for sink in sinks
        )
    result = table.dataset(tolerance, certify, complete)
    yield Reading(
        result, sinks, statements.holding, statements.failing,
        width=head_width(every.trace, every.stack.kind),
        effective=effective_of(every),
        patterns=patterns_of(every),
        finished=True,
        shown=_maps_of(example.reading, every, table, result),
        large=table.large,
        received=None if received is None else received.dataset(),
        strongest=strongest,
        idle=idle,
    )  # fmt: skip


def idle_of(passage: Passage, target: OutputTarget) -> xr.Dataset | None:
    """The idle attention of a passage; None where the model cannot be differentiated."""
    try:
        return idle_attention(passage.model, passage, target=target, kind=passage.kind)
    except UnsupportedModelError as error:
        warnings.warn(f"what the output depends on is left out of the reading: {error}", ModelWarning, stacklevel=2)
        return None


def strongest_of(passage: Passage, target: OutputTarget, certify: bool, progress: bool) -> xr.Dataset:
    """The weights that matter most; in a fast reading, without bounds and without what their effects go through."""
    texts = DRAFT if certify else 0
    options: Any = {"target": target, "kind": passage.kind, "certify": certify, "texts": texts, "progress": progress}
    return strongest_weights(passage.model, passage, **options)


def glance(heads: Heads) -> Reading:
    """A reading without bounds and self-contributions, which takes as long as a forward pass."""
    table = HeadTable(heads, *self_contributions(None, heads.stack, heads.layers))
    tolerance = check_tolerance(None, heads.dtype)
    for reading in read_heads(heads, table.own, tolerance, certify=False):
        table.add(reading)
    result, width = table.dataset(tolerance, certified=False), head_width(heads.trace, heads.stack.kind)
    return Reading(result, effective=effective_of(heads), patterns=patterns_of(heads), width=width)


def effective_of(heads: Heads) -> xr.Dataset:
    """The paper's decomposition of all heads of the trace, without matrices."""
    options: Any = {"kind": heads.stack.kind, "matrices": False, "spectrum": False}
    return heads.once("effective attention", lambda: effective_attention(heads.trace, **options))


def patterns_of(heads: Heads) -> xr.Dataset | None:
    """Which patterns all heads of the trace follow; None for a long text, whose weights are not recorded."""
    if not isinstance(heads.stack.layers[0], RecordedLayer):
        return None
    return heads.once("patterns", lambda: attention_patterns(heads.trace, kind=heads.stack.kind))


def with_certificates(passage: Passage, reading: Reading, progress: bool = False) -> Reading:
    """The reading with a certificate of each head that it describes: alternatives, and a patched run that confirms them."""
    certificates = tuple(
        certify_head(passage.model, passage, *name, kind=passage.kind, progress=progress) for name in reading.described
    )
    return replace(reading, certificates=certificates)


def _maps_of(reading: HeadReading | None, every: Heads, table: HeadTable, result: xr.Dataset) -> xr.Dataset | None:
    """Every map of one head, as an `attention_reading` of it alone."""
    if reading is None:
        return None
    alone = Heads(every.trace, reading.head.layer, reading.head.head, every.rows, every.stack.kind)
    place = [every.layers.index(reading.head.layer)]
    maps = HeadTable(alone, table.own[place], table.error[place], maps=True)
    maps.add(reading)
    settings = json.loads(result.attrs["settings"])
    return maps.dataset(settings["tolerance"], settings["certified"])
