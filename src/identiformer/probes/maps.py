"""The maps ĝ from hidden to input space: none at all, a matrix, or one hidden layer. §4.2, B.1"""

from typing import Literal

import torch
from torch import Tensor, nn

Kind = Literal["naive", "linear", "procrustes", "mlp"]


class LinearMap(nn.Module):
    """x̂ = eW, without a bias."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.width = len(weight)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden @ self.weight


class PerceptronMap(nn.Module):
    """x̂ = gelu(eA + a)B + b."""

    def __init__(self, width: int, inner_width: int, input_width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, input_width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.outer(self.dropout(nn.functional.gelu(self.inner(hidden))))


def fresh_map(kind: str, width: int, input_width: int, inner_width: int, dropout: float, generator: torch.Generator) -> nn.Module:
    """A map to be trained: Glorot uniform weights, biases of zero."""
    if kind == "mlp":
        network: nn.Module = PerceptronMap(width, inner_width, input_width, dropout)
    else:
        network = LinearMap(torch.empty(width, input_width))
    for parameter in network.parameters():
        if parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return network
