"""How well the scores of a map predict measured effects."""

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.equations.attribution.agreement import row_correlation, row_ranks

Map = Float[Tensor, "layer query key"]


@dataclass(frozen=True, eq=False)
class Effects:
    """Measured effects of each key on each query, and which of them are counted."""

    size: Map
    counted: Bool[Tensor, "layer query key"]

    @cached_property
    def ranks(self) -> Map:
        """The rank of each counted effect in its row: computed once for all maps."""
        return row_ranks(self.size, self.counted)


def pearson(truth: Effects, scores: Map) -> Float[Tensor, " layer"]:
    """Pearson's correlation of |scores| with effects over the counted keys of each row: its mean over rows."""
    return row_correlation(truth.size, scores.abs(), truth.counted).nanmean(-1)


def spearman(truth: Effects, scores: Map) -> Float[Tensor, " layer"]:
    """Spearman's correlation of |scores| with effects over the counted keys of each row: its mean over rows."""
    return row_correlation(truth.ranks, row_ranks(scores.abs(), truth.counted), truth.counted).nanmean(-1)


def signed(truth: Effects, scores: Map) -> Float[Tensor, " layer"]:
    """Pearson's correlation of effects with the scores themselves, so that a negative score predicts a smaller effect than 0."""
    return row_correlation(truth.size, scores, truth.counted).nanmean(-1)


OTHER_SCORES = {"spearman": spearman, "signed": signed}
