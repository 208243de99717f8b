"""What a language model wrote after a prompt, token by token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel
from identiformer.models.tracing import trace_batch
from identiformer.tokens import Tokens
from identiformer.trace import Trace


@dataclass(frozen=True, eq=False)
class Answer:
    """A prompt and what a language model wrote after it, from `Model.generate`; `Model.trace` takes it in place of a text.

    Parameters
    ----------
    model : Model
        The model that wrote it.
    prompt : str
        The text that the model read, with its chat template if there is one.
    text : str
        What the model wrote, without special tokens.
    tokens : Tokens
        The tokens of prompt and answer; `Tokens.span_names` says which is which.
    start : int
        The position of the first token of the answer.
    probabilities : tuple of float
        Of each token of the answer, given all tokens before it.
    interrupted : bool
        Whether the generation was interrupted, so that the answer is only its beginning.
    decoding : mapping
        The settings that decided which tokens were written: `temperature`, `seed` if it is above 0, and those of the model's
        generation_config if they were requested.
    notes : tuple of str
        What limits shares by role, in sentences: a chat template that changes messages, control tokens in a message.

    Examples
    --------
    >>> import identiformer as idf
    >>> answer = idf.load("smollm2").generate("The capital of France is", max_new_tokens=2)  # doctest: +SKIP
    >>> answer.text, answer.tokens.texts[answer.start:]  # doctest: +SKIP
    (' Paris.', ('▁Paris', '.'))
    >>> answer.trace.layer(1).weights.shape  # (head query key)  # doctest: +SKIP
    torch.Size([9, 7, 7])
    """

    model: LoadedModel
    prompt: str
    text: str
    tokens: Tokens
    start: int
    probabilities: tuple[float, ...]
    interrupted: bool = False
    decoding: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def positions(self) -> range:
        """The positions whose output is a token of the answer: each is one before its token."""
        return range(self.start - 1, len(self.tokens) - 1)

    @cached_property
    def trace(self) -> Trace:
        """One forward pass over prompt and answer: the attention with which the answer was written."""
        return trace_batch(self.model, self.batch, None, False, ())[0]

    @property
    def batch(self) -> Batch:
        """The inputs of the network: exactly the tokens that it read and wrote."""
        return batch_of(self.tokens, self.prompt + self.text, json.dumps(self.decoding))


Text = str | Answer | Tensor
"""What a model reads: a text, an answer that it wrote, or an image or audio."""


def batch_of(tokens: Tokens, text: str, decoding: str = "") -> Batch:
    """The inputs of a language model for tokens that may not be what its tokenizer makes of their text."""
    ids = torch.tensor([tokens.ids])
    return Batch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, [tokens], None, [text], None, decoding)
