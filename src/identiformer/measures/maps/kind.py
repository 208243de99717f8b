"""What a map is: a score for each pair of tokens in each layer, or for each token of the text."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from identiformer.passage import Passage

WITH_VALUES = "attention weights, values"
WITH_BLOCKS = "a BERT-, Llama- or GPT-2-like model"
"""What several maps need."""


@dataclass(frozen=True)
class MapKind:
    """One way to say how much each token matters to another, or to the output."""

    name: str
    title: str
    """In a few words, for tables and figures."""
    formula: str
    paper: str
    cost: str
    """In forward passes over the text."""
    compute: Callable[[Passage], Tensor]
    """To float64 scores (layer query key), zero where a query cannot see a key; or (source) for an explanation of the output.

    Raises UnsupportedModelError, with the reason, for a model that it is not defined for."""
    needs: str = "attention weights"
    signed: bool = False
    cheap: bool = True
    """Whether it takes no longer than a few forward passes."""
    explains_output: bool = False
    """Whether it scores each token for the model's output, instead of each pair of tokens for each layer."""
    has_residual: bool = False
    """Whether scores include what the residual connection carries, so that rollout and flow do not add it."""

    def scores(self, passage: Passage) -> Tensor:
        """The scores of a text, computed once, because rollout and flow start from those of a map."""
        return passage.once(self, partial(self.compute, passage))
