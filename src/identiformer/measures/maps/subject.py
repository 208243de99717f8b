"""One text as a model reads it: everything that maps and explanations are computed from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import xarray as xr
from torch import Tensor

from identiformer.errors import InputError
from identiformer.measures.attribution.hidden_token import DIRECTIONS, token_attribution
from identiformer.measures.maps.target import Output, Target, answer_targets, find_target
from identiformer.models import Answer, Model, Text
from identiformer.models.blocks.recorded import RecordedBlocks
from identiformer.models.blocks.recording import record_blocks
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.encoding.text import Batch
from identiformer.texts import Example
from identiformer.tokens import Tokens
from identiformer.trace import AttentionStack, RecordedLayer, Trace


@dataclass(frozen=True, eq=False)
class Subject:
    """One text as a model reads it. Each part is computed when it is first needed, and once."""

    model: Model
    example: Example
    truncate: bool = False
    seed: int = 0
    directions: int = DIRECTIONS
    recorded: Trace | None = None
    """The forward pass, if it has been run already."""
    answer: Answer | None = None
    """What the model read and wrote, in place of the text of the example."""
    step: int = 0
    """Which token of the answer is explained, counted from 0."""
    output: Output = "logit"
    """Whether its logit or its probability."""
    others: tuple[Example, ...] = ()
    """Other texts of the corpus, from which a yardstick draws tokens."""
    _results: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, text: str | Answer, pair: str | None = None, **options: Any) -> "Subject":
        """One text, or what the model has generated, as the model reads it."""
        if not isinstance(text, Answer):
            return cls(model, Example(text, pair), **options)
        if pair is not None:
            raise InputError("expected an answer, which is read alone, got a pair too; leave the pair out.")
        return cls(model, Example(text.prompt + text.text), answer=text, **options)

    @property
    def texts(self) -> tuple[Text, str | None]:
        """What the model reads, as its methods take it."""
        return (self.example.text, self.example.pair) if self.answer is None else (self.answer, None)

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """The result of a computation that several maps or yardsticks share."""
        if name not in self._results:
            self._results[name] = compute()
        return self._results[name]

    @cached_property
    def trace(self) -> Trace:
        """The forward pass, with its attention weights."""
        if self.recorded is not None:
            return self.recorded
        return self.model.trace(*self.texts, truncate=self.truncate, form="weights")

    @cached_property
    def batch(self) -> Batch:
        """The inputs of the network."""
        return self.model.encode(*self.texts, self.truncate)

    @cached_property
    def tokens_of_others(self) -> tuple[int, ...]:
        """The tokens of other texts of the corpus, without special ones."""
        tokens = [self.model.tokens(other.text, other.pair, truncate=True) for other in self.others if other.text.strip()]
        return tuple(token for text in tokens for token in text.regular_ids)

    @cached_property
    def target(self) -> Target:
        """The number that explanations of the output explain."""
        if self.answer is not None:
            return answer_targets(self.answer, [self.step], self.output)[0]
        word = self.example.answer
        return find_target(self.model, self.batch, self.causal, None if word is None else self.tokens.holding(word[0]))

    @cached_property
    def causal(self) -> bool:
        """Whether no token sees a later one."""
        return not bool(self.visible.triu(1).any())

    @property
    def stack(self) -> AttentionStack:
        """The layers of the model; of its encoder, if it has one."""
        return self.trace.stack()

    @property
    def tokens(self) -> Tokens:
        """The tokens of the text."""
        return self.stack.keys

    @property
    def layers(self) -> list[RecordedLayer]:
        """The attention of every layer."""
        return [layer.recorded() for layer in self.stack.layers]

    @cached_property
    def visible(self) -> Tensor:
        """Which keys each query sees (layer query key)."""
        return torch.stack([layer.visible.dense() for layer in self.stack.layers])

    @cached_property
    def blocks(self) -> RecordedBlocks:
        """The residual stream, norms and feed-forward layers; raises UnsupportedModelError unless their layout is known."""
        return record_blocks(self.model, *self.texts, truncate=self.truncate)

    @cached_property
    def input_function(self) -> InputFunction:
        """The model as a function of the vectors x that its first block reads, with the outputs that have the target.

        Not of those before the LayerNorm of the embeddings: it removes their length, so that ⟨x, ∂f/∂x⟩ is zero for every f.
        """
        options: dict[str, Any] = {"input_site": "after", "task_head": self.target.direction is None}
        return self.model.input_function(*self.texts, truncate=self.truncate, **options)[0]

    @cached_property
    def attribution(self) -> xr.Dataset:
        """Hidden Token Attribution of the text."""
        return token_attribution(self.model, *self.texts, directions=self.directions, seed=self.seed, truncate=self.truncate)
