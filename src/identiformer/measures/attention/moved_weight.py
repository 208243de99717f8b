"""Move attention weight from one key to another, and measure what changes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.equations.attention.heads import group_of
from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.intervals import feasible_sets
from identiformer.errors import InputError
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.measures.attention.predictions import Prediction, predictions
from identiformer.measures.indices import select_indices
from identiformer.models import Model
from identiformer.models.interventions.patching import Change
from identiformer.trace import RecordedLayer, Trace


@dataclass(frozen=True)
class MovedWeight:
    """What happens when one query attends to another key; from `move_weight`."""

    query_token: str
    source_token: str
    target_token: str
    amount: float
    head_change: float
    """‖(a' - a)VH‖/‖aVH‖: the relative change of the head's output in this row."""
    tolerance: float
    """A relative change of the head's output that counts as none."""
    output: Change
    """Of the model's output, next to its control."""
    predictions: list[Prediction]
    """Of a language model at this position and, if it is causal, at the last one."""

    @property
    def alternative(self) -> bool:
        """Whether the changed row is an alternative: a row with the same output of the head."""
        return self.head_change <= self.tolerance

    def sentences(self) -> list[str]:
        """The findings as sentences."""
        if self.alternative:
            verdict = f"an alternative: the head's output changes by at most {self.tolerance:g} times its length"
        else:
            verdict = f"not an alternative: the head's output changes by {self.head_change:.2g} times its length"
        return [
            f"The changed row is {verdict}.",
            f"Moving {self.amount:.3f} of the weight of ‘{self.query_token}’ from ‘{self.source_token}’ to ‘{self.target_token}’ "
            f"changes the model's output by up to {self.output.patched:.2g} per coordinate; a random change of the same size by "
            f"up to {self.output.control:.2g}.",
            *(prediction.sentence() for prediction in self.predictions[:1]),
        ]


def move_weight(
    model: Model,
    trace: Trace,
    layer: int,
    head: int,
    query: int,
    source: int,
    target: int,
    *,
    share: float = 1.0,
    kind: str | None = None,
    tensor: Tensor | None = None,
) -> MovedWeight:
    """Move weight of one row from one key to another in a patched run.

    Parameters
    ----------
    model : Model
    trace : Trace
        Of the model, with recorded weights.
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
    MovedWeight
        The change of the head's output in this row, and whether the row is an alternative; the change of the model's output
        next to that of a random change of the same size; and the predictions of a language model before and after.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> trace = model.trace("He said that the pie was his.")
    >>> moved = idf.move_weight(model, trace, layer=4, head=3, query=2, source=0, target=5)
    >>> moved.alternative
    False
    """
    record = trace.layer(layer, kind).recorded()
    stack = trace.stack(kind)
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
    weights = record.weights[head].double().clone()
    row, amount = weights[query].clone(), share * float(weights[query, source])
    if amount == 0:
        raise InputError(f"expected a key with weight to move, but the weight of the key at {source} is 0; choose another one.")
    row[source] -= amount
    row[target] += amount
    feasible = _feasible(record, head, query)
    head_change = feasible.change(row[visible_keys].numpy())
    weights[query] = row
    rerun = model.rerun(trace, {(layer, head): weights}, kind=kind, tensor=tensor)
    last = len(stack.queries) - 1
    positions = [query, last] if query != last and model.network.can_generate() else [query]
    return MovedWeight(
        stack.queries.texts[query],
        stack.keys.texts[source],
        stack.keys.texts[target],
        amount,
        head_change,
        feasible.tolerance,
        rerun.output,
        predictions(model, rerun, positions),
    )


def _feasible(record: RecordedLayer, head: int, query: int) -> FeasibleSet:
    rows = feasible_sets(
        record.weights[head, [query]],
        record.values[group_of(head, record.heads, len(record.values))],
        record.visible.rows(torch.tensor([query])),
        tolerance=default_tolerance(record.values.dtype),
        projection=None if record.projection is None else record.projection[head],
        sink=record.sink,
    )
    return next(iter(rows))[2]
