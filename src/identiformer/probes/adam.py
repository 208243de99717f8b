"""Maps trained by Adam until the validation loss no longer falls, as in B.1."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from identiformer.equations.identifiability.linear_maps import cosine_gradient, cosine_loss, squared_gradient, squared_loss
from identiformer.equations.identifiability.recovery import Metric, unit
from identiformer.errors import InputError
from identiformer.probes.maps import LinearMap, PerceptronMap
from identiformer.probes.splits import Split
from identiformer.probes.task import Task

BATCH, PATIENCE = 256, 20
LEARNING_RATES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
"""The grid of B.1."""


def train(
    make: Callable[[torch.Generator], LinearMap | PerceptronMap],
    task: Task,
    split: Split,
    metric: Metric,
    learning_rate: float | None,
    seed: int,
    most_epochs: int | None = None,
) -> nn.Module:
    """The map with the least validation loss; without a learning rate, that of the best of the grid."""
    rates = LEARNING_RATES if learning_rate is None else (learning_rate,)
    fits = [_train_once(make, task, split, metric, rate, seed, most_epochs) for rate in rates]
    return min(fits, key=lambda fit: fit[0])[1]


def _train_once(
    make: Callable[[torch.Generator], LinearMap | PerceptronMap],
    task: Task,
    split: Split,
    metric: Metric,
    learning_rate: float,
    seed: int,
    most_epochs: int | None,
) -> tuple[float, nn.Module]:
    if not learning_rate > 0:
        raise InputError(f"expected a learning rate above 0, got {learning_rate}.")
    generator = torch.Generator().manual_seed(seed)
    network = make(generator)
    gradient, loss_of = (cosine_gradient, cosine_loss) if metric == "cosine" else (squared_gradient, squared_loss)
    rows, held_out = task.rows(split.training), task.rows(split.validation)
    targets = unit(task.inputs) if metric == "cosine" else task.inputs
    seen, sought = task.hidden[held_out], targets[held_out]
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, betas=(0.9, 0.999), fused=True)
    best, best_loss, waited, epoch = _copy(network), float("inf"), 0, 0
    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
        torch.manual_seed(seed)
        while waited < PATIENCE and (most_epochs is None or epoch < most_epochs):
            for chosen in rows[torch.randperm(len(rows), generator=generator)].split(BATCH):
                own = targets.index_select(0, chosen)  # twice as fast as indexing
                network.backpropagate(task.hidden.index_select(0, chosen), lambda predicted, own=own: gradient(predicted, own))
                optimizer.step()
            with torch.no_grad():
                loss = float(loss_of(network(seen), sought))
            epoch, waited = epoch + 1, waited + 1
            if loss < best_loss:
                best, best_loss, waited = _copy(network), loss, 0
    network.load_state_dict(best)
    return best_loss, network


def _copy(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}
