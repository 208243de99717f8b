"""Maps ĝ from hidden to input space, linear or with one hidden layer, and their training by Adam. §4.2, B.1."""

from collections.abc import Callable
from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor, nn

from identiformer.equations.identifiability.linear_maps import cosine_gradient, cosine_loss, squared_gradient, squared_loss
from identiformer.equations.identifiability.recovery import Metric, unit
from identiformer.errors import InputError
from identiformer.probes.task import Split, Task

Kind = Literal["naive", "linear", "procrustes", "mlp"]
LossGradient = Callable[[Tensor], Tensor]
"""From predictions to the gradient of the loss with respect to them."""

BATCH, PATIENCE = 256, 20
LEARNING_RATES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
"""The grid of B.1."""


class LinearMap(nn.Module):
    """x̂ = eW, without a bias."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.width = len(weight)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden @ self.weight

    @torch.no_grad()
    def backpropagate(self, hidden: Tensor, loss_gradient: LossGradient) -> None:
        """Write the gradient of the loss to that of the weights: two products; autograd takes a third longer."""
        torch.mm(hidden.mT, loss_gradient(hidden @ self.weight), out=gradient_of(self.weight))


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
    def backpropagate(self, hidden: Tensor, loss_gradient: LossGradient) -> None:
        """Write the gradient of the loss to those of weights and biases, with dropout after the activation."""
        before = self.inner(hidden)
        active = nn.functional.gelu(before)
        kept = nn.functional.dropout(torch.ones_like(active), self.dropout) if self.dropout else None
        if kept is not None:
            active.mul_(kept)
        outer_gradient = loss_gradient(self.outer(active))
        torch.mm(outer_gradient.mT, active, out=gradient_of(self.outer.weight))
        torch.sum(outer_gradient, 0, out=gradient_of(self.outer.bias))
        inner_gradient = torch.mm(outer_gradient, self.outer.weight, out=active)
        if kept is not None:
            inner_gradient.mul_(kept)
        inner_gradient = torch.ops.aten.gelu_backward(inner_gradient, before)
        torch.mm(inner_gradient.mT, hidden, out=gradient_of(self.inner.weight))
        torch.sum(inner_gradient, 0, out=gradient_of(self.inner.bias))


def gradient_of(parameter: Tensor) -> Tensor:
    """The gradient of a parameter, allocated on first use."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def untrained_map(
    kind: str, width: int, input_width: int, inner_width: int, dropout: float, generator: torch.Generator
) -> LinearMap | PerceptronMap:
    """A map to train: Glorot uniform weights, zero biases."""
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


def train_map(
    kind: str,
    task: Task,
    split: Split,
    metric: Metric,
    learning_rate: float | None,
    inner_width: int,
    dropout: float,
    seed: int,
    most_epochs: int | None = None,
) -> nn.Module:
    """Train a map until the validation loss stops falling; without a learning rate, keep the best of the grid."""
    trained = []
    for rate in LEARNING_RATES if learning_rate is None else (learning_rate,):
        if not rate > 0:
            raise InputError(f"expected a learning rate above 0, got {rate}.")
        generator = torch.Generator().manual_seed(seed)
        network = untrained_map(kind, task.hidden.shape[1], task.candidates.shape[1], inner_width, dropout, generator)
        with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
            torch.manual_seed(seed)
            loss = _train_once(network, task, split, metric, rate, generator, most_epochs)
        trained.append((loss, network))
    return min(trained, key=lambda fit: fit[0])[1]


def _train_once(
    network: LinearMap | PerceptronMap,
    task: Task,
    split: Split,
    metric: Metric,
    learning_rate: float,
    generator: torch.Generator,
    most_epochs: int | None,
) -> float:
    """Leave the network at its smallest validation loss, and return that."""
    gradient, loss_of = (cosine_gradient, cosine_loss) if metric == "cosine" else (squared_gradient, squared_loss)
    rows, held_out = task.rows(split.training), task.rows(split.validation)
    targets = unit(task.inputs) if metric == "cosine" else task.inputs
    validation_hidden, validation_targets = task.hidden[held_out], targets[held_out]
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, betas=(0.9, 0.999), fused=True)
    best, best_loss, waited, epoch = deepcopy(network.state_dict()), float("inf"), 0, 0
    while waited < PATIENCE and (most_epochs is None or epoch < most_epochs):
        for batch in rows[torch.randperm(len(rows), generator=generator)].split(BATCH):
            hidden, wanted = task.hidden.index_select(0, batch), targets.index_select(0, batch)  # twice as fast as indexing
            network.backpropagate(hidden, lambda predicted, wanted=wanted: gradient(predicted, wanted))
            optimizer.step()
        with torch.no_grad():
            loss = float(loss_of(network(validation_hidden), validation_targets))
        epoch, waited = epoch + 1, waited + 1
        if loss < best_loss:
            best, best_loss, waited = deepcopy(network.state_dict()), loss, 0
    network.load_state_dict(best)
    return best_loss
