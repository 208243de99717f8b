"""One text as one model reads it: what is computed from it is computed on first use, and once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.errors import InputError
from identiformer.models import Answer, Model, Picture, Text
from identiformer.models.blocks.recorded import RecordedBlocks
from identiformer.models.blocks.recording import record_blocks
from identiformer.models.derivatives.head_gradients import HeadGradients, head_gradients
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.encoding.text import Batch
from identiformer.models.inputs import inputs_of_trace
from identiformer.models.interventions.patching import Patches, Rerun, rerun
from identiformer.models.objective import Objective, OutputTarget, find_objective
from identiformer.models.target import Output, Target, answer_targets, find_target
from identiformer.options import DIRECTIONS
from identiformer.texts import Example
from identiformer.tokens import Tokens
from identiformer.trace import AttentionStack, RecordedLayer, Trace

Result = TypeVar("Result")


TRACE = ("trace", None, (), True)
"""The key of the trace that is made by default."""
BUDGET = 2**26
"""Bytes of results that a passage keeps besides its inputs and traces; more are computed again."""


class Memo:
    """Results by key, each computed once even if several threads ask for it, within a number of bytes."""

    def __init__(self, version: Callable[[], Hashable]) -> None:
        self._version = version
        self._read_at: Hashable = None
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.RLock] = {}
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._closed = False

    @classmethod
    def of(cls, model: Model) -> "Memo":
        """Results of a model, until its weights change."""
        return cls(partial(_weights_version, model))

    def once(self, key: Hashable, compute: Callable[[], Result], pinned: bool = False) -> Result:
        """The result with this key, computed unless it is kept; one that is pinned is never dropped."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.RLock())
        with lock:
            with self._lock:
                self._check()
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key][0]
            value = compute()
            self.keep(key, value, pinned)
            return value

    def knows(self, key: Hashable) -> bool:
        """Whether a result is kept."""
        with self._lock:
            return key in self._kept

    def keep(self, key: Hashable, value: Any, pinned: bool = True) -> None:
        """Keep a result, and drop those that were not used for longest if there are too many bytes."""
        with self._lock:
            self._kept[key] = value, 0 if pinned else _size(value, set())
            total = sum(size for _, size in self._kept.values())
            for other, (_, size) in list(self._kept.items()):
                if total <= BUDGET:
                    break
                if size:
                    del self._kept[other]
                    total -= size

    def close(self) -> None:
        """Forget all results; what is asked for afterwards is an error."""
        with self._lock:
            self._kept.clear()
            self._locks.clear()
            self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise InputError("expected an open passage, got one that was closed; open the text again.")
        if self._read_at is None:
            self._read_at = self._version()
        elif self._version() != self._read_at:
            raise InputError("expected the model with the weights that read this passage, but they changed; open the text again.")


@dataclass(frozen=True, eq=False)
class Passage:
    """One text, pair, answer, image or audio recording as one model reads it.

    Everything about it is computed when it is first needed, and kept for whatever needs it next, in any thread. All functions
    that take a model and a text also take a model and a passage.

    Parameters
    ----------
    model : Model
        What reads it.
    text : str, Answer or Tensor
        What is read: a text, what the model has generated, or an image or audio.
    pair : str, optional
        The second text of a pair.
    truncate : bool
        Whether a text that is longer than the model takes is cut.
    kind : str, optional
        The attention type that is looked at; the first of the model by default.
    annotated : Example, optional
        The example of a corpus that it is, with its label, evidence and answer.
    picture : Picture, optional
        What the image looks like.
    others : tuple of Example
        Other texts of the same corpus, from which tokens are drawn.
    seed, directions : int
        Of what is drawn at random: directions per token, a random map.
    step, output : int and str
        Which token of an answer is explained, counted from 0, and whether its logit or its probability.

    Examples
    --------
    >>> import identiformer as idf
    >>> passage = idf.Passage.of(idf.load("minilm"), "He said hello.")
    >>> passage.tokens.texts
    ('[CLS]', 'he', 'said', 'hello', '.', '[SEP]')
    >>> passage.trace is passage.trace
    True
    """

    model: Model
    text: Text
    pair: str | None = None
    truncate: bool = False
    kind: str | None = None
    annotated: Example | None = None
    picture: Picture | None = None
    others: tuple[Example, ...] = ()
    seed: int = 0
    directions: int = DIRECTIONS
    step: int = 0
    output: Output = "logit"
    memo: Memo = field(default=None, repr=False)  # pyright: ignore

    def __post_init__(self) -> None:
        if isinstance(self.text, Answer) and self.pair is not None:
            raise InputError("expected an answer, which is read alone, got a pair too; leave the pair out.")
        if self.memo is None:
            object.__setattr__(self, "memo", Memo.of(self.model))

    @classmethod
    def of(cls, model: Model, text: Any, pair: str | None = None, *, trace: Trace | None = None, **options: Any) -> "Passage":
        """The passage of whatever a user passes as a text: itself, if it is one of this model.

        A trace that exists is kept as it is, since the rounding of a padded batch is its own; with the image or audio that it
        was made from as `tensor=`, or as the text.
        """
        if isinstance(text, Passage):
            if text.model is not model and text.model.revision != model.revision:
                raise InputError(f"expected a passage of this model ({model.name}), got one of {text.model.name}; open it again.")
            chosen = {name: value for name, value in options.items() if name not in ("truncate", "tensor") and value is not None}
            return text.view(**chosen)
        if isinstance(text, Example):
            return cls.of(model, text.text, text.pair, trace=trace, annotated=text, **options)
        if isinstance(text, Picture):
            return cls.of(model, text.pixels, pair, trace=trace, picture=text, **options)
        if isinstance(text, Trace):
            return cls._of_trace(model, text, **options)
        options.pop("tensor", None)
        passage = cls(model, text, pair, **options)
        if trace is not None:
            passage.memo.keep(TRACE, trace)
        return passage

    @classmethod
    def _of_trace(cls, model: Model, trace: Trace, *, tensor: Tensor | None = None, **options: Any) -> "Passage":
        batch = inputs_of_trace(model, trace, tensor)
        text = tensor if tensor is not None else trace.source["text"]
        passage = cls(model, text, trace.source.get("pair"), **{**options, "truncate": True})
        passage.memo.keep("batch", batch)
        passage.memo.keep(TRACE, trace)
        return passage

    def view(self, **changes: Any) -> "Passage":
        """The same passage with another attention type, or other settings of what is computed; what is known is shared."""
        return self if all(getattr(self, name) == value for name, value in changes.items()) else replace(self, **changes)

    def once(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The result of a computation that several measures share.

        The key holds everything that changes it, besides the settings of this view, which are part of every key.
        """
        return self.memo.once((key, self.kind, self.seed, self.directions, self.step, self.output), compute)

    def read_by(self, model: Model) -> "Passage":
        """The same passage as another model reads it, such as one with random weights."""
        text = self.text if self.answer is None else replace(self.answer, model=model)
        return replace(self, model=model, text=text, memo=Memo.of(model))

    def close(self) -> None:
        """Forget what was computed."""
        self.memo.close()

    @property
    def answer(self) -> Answer | None:
        """What the model has generated, if that is what it reads."""
        return self.text if isinstance(self.text, Answer) else None

    @property
    def tensor(self) -> Tensor | None:
        """The image or audio, if that is what it reads."""
        return self.text if isinstance(self.text, Tensor) else None

    @property
    def example(self) -> Example:
        """The text as an example, with what is known about it."""
        if self.annotated is not None:
            return self.annotated
        answer = self.answer
        return Example(str(self.text), self.pair) if answer is None else Example(answer.prompt + answer.text)

    @property
    def rows(self) -> list[int] | None:
        """The rows that are read by default: all of a text (None), and those that predicted the tokens of an answer."""
        return None if self.answer is None else list(self.answer.positions)

    @property
    def batch(self) -> Batch:
        """The inputs of the network."""
        return self.memo.once("batch", lambda: self.model.encode(self.text, self.pair, self.truncate), pinned=True)

    def traced(self, form: Any = None, rows: Sequence[int] = (), raw_norms: bool = False) -> Trace:
        """The forward pass in some form, as `Model.trace` makes it."""
        if (form is None and (not rows or self.is_recorded)) or (form == "weights" and self.is_recorded):
            return self.trace
        options: Any = {"truncate": self.truncate, "form": form, "rows": rows, "raw_norms": raw_norms}
        key = ("trace", form, tuple(rows), raw_norms)
        return self.memo.once(key, lambda: self.model.trace(self.text, self.pair, **options), pinned=True)

    @property
    def trace(self) -> Trace:
        """The forward pass: with the weights of all layers, or in factored form if they do not fit into memory."""
        options: Any = {"truncate": self.truncate, "raw_norms": True}
        return self.memo.once(TRACE, lambda: self.model.trace(self.text, self.pair, **options), pinned=True)

    @property
    def recorded(self) -> Trace:
        """The forward pass with the weights of all layers."""
        return self.traced("weights")

    @property
    def is_recorded(self) -> bool:
        """Whether the trace has the weights of all rows: if they fit into memory, or it was made so."""
        if self.memo.knows(TRACE):
            return isinstance(self.trace.stacks[0].layers[0], RecordedLayer)
        return self.model.weights_size(self.batch.longest) <= self.model.memory

    @property
    def stack(self) -> AttentionStack:
        """The layers of the attention type that is looked at."""
        return self.trace.stack(self.kind)

    @property
    def tokens(self) -> Tokens:
        """The tokens of the text, as the model (or the encoder of an encoder-decoder) reads them."""
        return self.trace.stacks[0].keys if self.memo.knows(TRACE) else self.batch.encoder[0]

    @property
    def layers(self) -> list[RecordedLayer]:
        """The attention of every layer."""
        return [layer.recorded() for layer in self.recorded.stack(self.kind).layers]

    @property
    def visible(self) -> Tensor:
        """Which keys each query sees (layer query key)."""
        stack = self.recorded.stack(self.kind)
        return self.once("visible", lambda: torch.stack([layer.visible.dense() for layer in stack.layers]))

    @property
    def causal(self) -> bool:
        """Whether no token sees a later one."""
        return not bool(self.visible.triu(1).any())

    @property
    def blocks(self) -> RecordedBlocks:
        """The residual stream, norms and feed-forward layers; raises UnsupportedModelError unless their layout is known."""
        return self.memo.once("blocks", lambda: record_blocks(self.model, self.batch))

    @property
    def source(self) -> dict[str, str]:
        """The provenance of what is computed from it."""
        return self.model.source(self.batch, 0, "weights")

    def input_function(self, input_site: str = "before", task_head: bool = False) -> InputFunction:
        """The model as a function of its input vectors x, as `Model.input_function` makes it."""
        options: Any = {"input_site": input_site, "truncate": self.truncate, "task_head": task_head}
        # It holds a replica that it hooks and changes, so that each thread needs its own.
        key = ("input function", input_site, task_head, threading.get_ident())
        return self.memo.once(key, lambda: self.model.input_function(self.text, self.pair, **options)[0])

    def objective(self, target: OutputTarget = None) -> Objective:
        """What `target` names in the output of the model; see `find_objective`."""
        return self.memo.once(("objective", target), lambda: find_objective(self.model, self.batch, target, self.answer))

    def gradients(self, target: OutputTarget = None, draws: int = 1) -> HeadGradients:
        """Gradients of an objective at the outputs of all heads: of a number, or of random combinations of the outputs."""
        objective = self.objective(target)

        def compute() -> HeadGradients:
            scalars = partial(objective.scalars, draws=draws, seed=self.seed)
            return head_gradients(self.model, self.batch, self.stack.kind, scalars, **dict(objective.options))

        key = ("head gradients", target, 1 if objective.is_number else draws, self.seed, self.stack.kind)
        return self.memo.once(key, compute, pinned=True)

    @property
    def target(self) -> Target:
        """The number that explanations of the output explain."""

        def compute() -> Target:
            if self.answer is not None:
                return answer_targets(self.answer, [self.step], self.output)[0]
            word = self.example.answer
            return find_target(self.model, self.batch, self.causal, None if word is None else self.tokens.holding(word[0]))

        return self.once("target", compute)

    @property
    def target_function(self) -> InputFunction:
        """The model as a function of the vectors x that its first block reads, with the outputs that have the target.

        Not of those before the LayerNorm of the embeddings: it removes their length, so that ⟨x, ∂f/∂x⟩ is zero for every f.
        """
        return self.input_function("after", task_head=self.target.direction is None)

    @property
    def tokens_of_others(self) -> tuple[int, ...]:
        """The tokens of other texts of the corpus, without special ones."""
        tokens = [self.model.tokens(other.text, other.pair, truncate=True) for other in self.others if other.text.strip()]
        return tuple(token for text in tokens for token in text.regular_ids)

    def rerun(self, patches: Patches, **options: Any) -> Rerun:
        """Run the model again with patched attention in some heads, as `Model.rerun`; runs without the patch are shared.

        With control=False, the control and the run with the model's own weights are left out: their changes are NaN.
        """
        return rerun(self.model, self.batch, self.stack, patches, once=self.memo.once, **options)


def _weights_version(model: Model) -> Hashable:
    """What changes whenever the weights of a model in memory are changed by an operation of torch."""
    return tuple((id(parameter), parameter._version) for parameter in model.network.parameters() if not parameter.is_meta)


def _size(value: Any, counted: set[int]) -> int:
    """About how many bytes a result takes; what it holds several times counts once."""
    if id(value) in counted:
        return 0
    counted.add(id(value))
    if isinstance(value, Tensor):
        storage = value.untyped_storage()
        known = storage.data_ptr() in counted
        counted.add(storage.data_ptr())
        return 0 if known else storage.nbytes()
    if isinstance(value, np.ndarray | xr.Dataset):
        return value.nbytes
    parts: Iterable[Any] = ()
    if is_dataclass(value) and type(value).__module__.startswith("identiformer."):  # not a configuration of the model
        parts = (getattr(value, one.name) for one in fields(value))
    elif isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    return sum(_size(part, counted) for part in parts)


Readable = Text | Picture | Example | Trace | Passage
"""What a passage can be made of; functions take it with a model."""
