"""What a language model wrote after a prompt, token by token."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from identiformer.models.encoding.text import Batch
from identiformer.tokens import Tokens
from identiformer.trace import Trace

if TYPE_CHECKING:
    from identiformer.models.model import Model


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

    Examples
    --------
    >>> import identiformer as idf
    >>> answer = idf.load("smollm2").generate("The capital of France is", max_new_tokens=2)  # doctest: +SKIP
    >>> answer.text, answer.tokens.texts[answer.start:]  # doctest: +SKIP
    (' Paris.', ('▁Paris', '.'))
    >>> answer.trace.layer(1).weights.shape  # (head query key)  # doctest: +SKIP
    torch.Size([9, 7, 7])
    """

    model: "Model"
    prompt: str
    text: str
    tokens: Tokens
    start: int
    probabilities: tuple[float, ...]
    interrupted: bool = False

    @property
    def positions(self) -> range:
        """The positions whose output is a token of the answer: each is one before its token."""
        return range(self.start - 1, len(self.tokens) - 1)

    @cached_property
    def trace(self) -> Trace:
        """One forward pass over prompt and answer: the attention with which the answer was written."""
        return self.model.trace(self)

    @property
    def batch(self) -> Batch:
        """The inputs of the network: exactly the tokens that it read and wrote."""
        return batch_of(self.tokens, self.prompt + self.text)


Text = str | Answer | Tensor
"""What a model reads: a text, an answer that it wrote, or an image or audio."""


def batch_of(tokens: Tokens, text: str) -> Batch:
    """The inputs of a language model for tokens that may not be what its tokenizer makes of their text."""
    ids = torch.tensor([tokens.ids])
    return Batch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, [tokens], None, [text], None, exact=True)
