"""Move attention weight from one key to another, and measure what changes: the output, and what a language model predicts."""

from dataclasses import asdict
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.intervals import feasible_sets
from identiformer.errors import InputError
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.measures.indices import select_indices
from identiformer.models import Model
from identiformer.models.encoding.text import readable_tokens
from identiformer.models.interventions.patching import Rerun
from identiformer.passage import Passage, Readable
from identiformer.results import describe
from identiformer.trace import RecordedHead

TOP = 5


def change_of_output(rerun: Rerun) -> dict[str, float]:
    """The numbers of the output's `Change` by name."""
    return {name: value for name, value in asdict(rerun.output).items() if name != "where"}


def predicts_tokens(model: Model) -> bool:
    """Whether a model outputs logits of tokens at the positions of its text."""
    network = model.network
    return (
        model.tokenizer is not None
        and not network.config.is_encoder_decoder
        and getattr(network, "get_output_embeddings", lambda: None)() is not None
    )


def predictions(model: Model, rerun: Rerun, positions: list[int]) -> xr.Dataset:
    """The predictions of a language model at some positions before and after a patched run; at none for other models.

    Over (position, rank), the most probable first: `token_before` and `probability_before` of the unpatched run, `token_after`
    and `probability_after`. Over (position): `total_variation`, ½Σ|p - p'| over the whole vocabulary.
    """
    if not predicts_tokens(model) or rerun.before.ndim != 3:
        return xr.Dataset(coords={"position": np.arange(0)})
    found = [_prediction(model, rerun.before[0, position], rerun.after[0, position]) for position in positions]
    return xr.concat(found, "position").assign_coords(position=positions)


def _prediction(model: Model, before: Tensor, after: Tensor) -> xr.Dataset:
    runs = {"before": before.double().softmax(-1), "after": after.double().softmax(-1)}
    found: dict[str, Any] = {"total_variation": float((runs["after"] - runs["before"]).abs().sum() / 2)}
    for name, probabilities in runs.items():
        largest, ids = probabilities[: len(model.tokenizer)].topk(min(TOP, len(probabilities)))
        found[f"token_{name}"] = ("rank", list(readable_tokens(model.tokenizer, ids.tolist())))
        found[f"probability_{name}"] = ("rank", largest.tolist())
    return xr.Dataset(found)


def move_weight(
    model: Model,
    text: Readable,
    layer: int,
    head: int,
    query: int,
    source: int,
    target: int,
    *,
    share: float = 1.0,
    kind: str | None = None,
    tensor: Tensor | None = None,
) -> xr.Dataset:
    """Move weight of one row from one key to another in a patched run.

    Parameters
    ----------
    model : Model
    text : str, Answer, Tensor, Trace or Passage
        What the model reads, or has read: a trace of it with recorded weights, or a passage.
    layer, head, query : int
        The row; layers count from 1, heads and positions from 0.
    source, target : int
        The keys that lose and receive weight. The query must see both.
    share : float
        How much of the source's weight to move, from 0 to 1.
    kind : str, optional
        Attention type; the first of the trace by default.
    tensor : torch.Tensor, optional
        The image or audio of the trace.

    Returns
    -------
    xarray.Dataset
        Single numbers: `amount`, the weight that was moved; `head_change`, ‖(a' - a)VH‖/‖aVH‖, the relative change of the head's
        output in this row; `tolerance`, a change of it that counts as none; `alternative`, whether the changed row is one with
        the same output. Of the model's output, the largest change: `patched`, `control`, with a random change of the same size,
        and `floor`, with the model's own weights; and its `scale`. Of a language model, over (position, rank), at the query
        and, if the model is causal, at the last position: `token_before`, `probability_before`, `token_after` and
        `probability_after`, the most probable tokens; over (position), `total_variation` of all tokens.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> trace = model.trace("He said that the pie was his.")
    >>> moved = idf.move_weight(model, trace, layer=4, head=3, query=2, source=0, target=5)
    >>> bool(moved.alternative)
    False
    """
    passage = Passage.of(model, text, kind=kind, tensor=tensor)
    trace, stack = passage.recorded, passage.stack
    record = trace.layer(layer, kind).recorded()
    (head,) = select_indices(head, record.heads, "head")
    (query,) = select_indices(query, len(stack.queries), "query")
    source, target = select_indices([source, target], len(stack.keys), "key")
    if not 0 < share <= 1:
        raise InputError(f"expected a share of the weight above 0 and at most 1, got {share:g}.")
    if source == target:
        raise InputError(f"expected two different keys, got {source} twice; choose another key to receive the weight.")
    visible_keys = record.visible.dense()[query]
    for key in (source, target):
        if not bool(visible_keys[key]):
            raise InputError(f"expected a key that the query at {query} sees, got {key}; choose another one.")
    one = record.head(head)
    weights = one.weights.double().clone()
    row, amount = weights[query].clone(), share * float(weights[query, source])
    if amount == 0:
        raise InputError(f"expected a key with weight to move, but the weight of the key at {source} is 0; choose another one.")
    row[source] -= amount
    row[target] += amount
    feasible = _feasible(one.rows([query]))
    head_change = feasible.change(row[visible_keys].numpy())
    weights[query] = row
    rerun = passage.rerun({(layer, head): weights})
    last = len(stack.queries) - 1
    positions = [query, last] if query != last and model.network.can_generate() else [query]
    numbers = {
        "amount": amount,
        "head_change": head_change,
        "tolerance": feasible.tolerance,
        "alternative": head_change <= feasible.tolerance,
        **change_of_output(rerun),
    }
    result = predictions(model, rerun, positions).assign(numbers)
    tokens = {
        "query_token": stack.queries.texts[query],
        "source_token": stack.keys.texts[source],
        "target_token": stack.keys.texts[target],
    }
    row = {"layer": layer, "head": head, "query": query, "source": source, "target": target}
    settings = {"kind": stack.kind, "share": share}
    return describe(result.assign_coords(row | tokens), "move_weight", trace.source, settings)


def _feasible(row: RecordedHead) -> FeasibleSet:
    options = {"tolerance": default_tolerance(row.values.dtype), "projection": row.projection, "sink": row.sink}
    return next(iter(feasible_sets(row.weights, row.values, row.visible, **options)))[2]
