"""The first-order effects of the weights of a passage, one head at a time."""

from collections.abc import Hashable
from dataclasses import dataclass

from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.effects.weights import removed_effects, renormalized_effects, squared_effects
from identiformer.models.derivatives.head_gradients import HeadGradients
from identiformer.models.objective import Objective, OutputTarget
from identiformer.passage import Passage
from identiformer.trace import RecordedHead

DRAWS = 16
"""Random combinations of outputs by which effects on all of them are estimated."""

Map = Float64[Tensor, "row key"]


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of the weights of a passage on one objective: of single heads, on request."""

    passage: Passage
    objective: Objective
    gradients: HeadGradients
    target: OutputTarget
    draws: int

    @classmethod
    def of(cls, passage: Passage, target: OutputTarget = None, draws: int = DRAWS) -> "Effects":
        """Those of a passage: one forward pass, and one backward pass per draw, or one in all for a number."""
        objective = passage.objective(target)
        return cls(passage, objective, passage.gradients(target, draws), target, draws)

    def at(self, head: RecordedHead, rows: list[int]) -> Float[Tensor, "draw row width"]:
        """The gradients at the outputs of a head."""
        return self.gradients.layers[head.layer - 1][:, head.head, rows].float()

    def of_head(self, head: RecordedHead, rows: list[int]) -> Map:
        """The effect of each weight if its value is removed; without a sign unless the objective is a number."""
        gradients, weights, values = self.at(head, rows), head.weights[None], head.values[None]
        if self.objective.is_number:
            return removed_effects(weights, values, gradients[0][None])[0].cpu()
        return squared_effects(weights, values, gradients[:, None])[0].cpu()

    def renormalized(self, head: RecordedHead, rows: list[int]) -> Map:
        """The effect of each weight on a number if the softmax is taken without its key."""
        gradients = self.at(head, rows)
        return renormalized_effects(head.weights[None], head.values[None], gradients[0][None], head.sink)[0].cpu()

    def choices(self, head: RecordedHead) -> Tensor:
        """Which rows see more than one key (row 1): the others make no choice, and have no effect to report."""
        return head.visible.dense().sum(-1, keepdim=True) > 1

    def reaching(self, head: RecordedHead, rows: list[int]) -> Tensor:
        """The rows whose output can change the objective, and that make a choice (row 1)."""
        return (self.at(head, rows) != 0).any(0).any(-1, keepdim=True) & self.choices(head)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What results of these effects are kept by."""
        return "effects", self.target, self.draws
