"""The maps ĝ from hidden to input space: none at all, a matrix, or one hidden layer. §4.2, B.1"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Kind = Literal["naive", "linear", "procrustes", "mlp"]


Slope = Callable[[Tensor], Tensor]
"""From predictions to the gradient of the loss by them."""


class LinearMap(nn.Module):
    """x̂ = eW, without a bias."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.width = len(weight)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden @ self.weight

    @torch.no_grad()
    def backpropagate(self, hidden: Tensor, slope: Slope) -> None:
        """Write the loss's gradient to that of the weights: two products, where autograd adds a third of their time."""
        torch.mm(hidden.mT, slope(hidden @ self.weight), out=gradient_of(self.weight))


class PerceptronMap(nn.Module):
    """x̂ = gelu(eA + a)B + b."""

    def __init__(self, width: int, inner_width: int, input_width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, input_width)
        self.dropout = dropout

    def forward(self, hidden: Tensor) -> Tensor:
        return self.outer(nn.functional.gelu(self.inner(hidden)))

    @torch.no_grad()
    def backpropagate(self, hidden: Tensor, slope: Slope) -> None:
        """Write the loss's gradient to those of weights and biases, with dropout between the layers."""
        before = self.inner(hidden)
        active = nn.functional.gelu(before)
        kept = nn.functional.dropout(torch.ones_like(active), self.dropout) if self.dropout else None
        if kept is not None:
            active.mul_(kept)
        behind = slope(self.outer(active))
        torch.mm(behind.mT, active, out=gradient_of(self.outer.weight))
        torch.sum(behind, 0, out=gradient_of(self.outer.bias))
        between = torch.mm(behind, self.outer.weight, out=active)
        if kept is not None:
            between.mul_(kept)
        between = torch.ops.aten.gelu_backward(between, before)
        torch.mm(between.mT, hidden, out=gradient_of(self.inner.weight))
        torch.sum(between, 0, out=gradient_of(self.inner.bias))


def gradient_of(parameter: Tensor) -> Tensor:
    """Where a parameter's gradient is kept, made when first asked for."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def fresh_map(
    kind: str, width: int, input_width: int, inner_width: int, dropout: float, generator: torch.Generator
) -> LinearMap | PerceptronMap:
    """A map to be trained: Glorot uniform weights, biases of zero."""
    if kind == "mlp":
        network = PerceptronMap(width, inner_width, input_width, dropout)
    else:
        network = LinearMap(torch.empty(width, input_width))
    for parameter in network.parameters():
        if parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return network
