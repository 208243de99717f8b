"""The task head of a model as a chain of linear maps and activations, recorded while it runs on a text."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from identiformer.errors import UnsupportedModelError
from identiformer.models.blocks.layout import Linear, in_memory
from identiformer.models.blocks.module_states import hidden_states_of
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import hooked, replica_of


@dataclass(frozen=True, eq=False)
class HeadStep:
    """y = s·(xW + b), with s the quotient of the activation's output and input."""

    map: Linear
    slopes: Float64[Tensor, " output"]


def record_head(model: LoadedModel, inputs: dict[str, Tensor], position: int) -> tuple[HeadStep, ...]:
    """The steps from the last hidden vector at a position to the logits.

    Raises UnsupportedModelError for a head that is not a chain of linear maps and elementwise activations.
    """
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []

    def on_output(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        calls.append((module, _at(arguments[0], position), _at(output, position)))

    replica = replica_of(model.network)
    linear = [module for module in replica.modules() if isinstance(module, nn.Linear | Conv1D)]
    with hooked(linear, on_output), torch.no_grad():
        result = model.forward(replica, inputs, output_hidden_states=True)
    state, logits = (_at(tensor, position) for tensor in (hidden_states_of(result)[-1], result.logits))
    starts = [number for number, (_, x, _) in enumerate(calls) if _same(x, state)]
    chain = calls[starts[-1] :] if starts else []
    outputs, following = [call[2] for call in chain], [*(call[1] for call in chain[1:]), logits]
    if not chain or not _same(outputs[-1], logits) or any(a.shape != b.shape for a, b in zip(outputs, following, strict=True)):
        raise UnsupportedModelError(
            f"expected a head of linear maps and activations on one position, got that of {type(model.network).__name__}; use an "
            "explanation by gradients."
        )
    return tuple(
        HeadStep(in_memory(module), torch.where(output == 0, 0, after / output))
        for (module, _, output), after in zip(chain, following, strict=True)
    )


def _at(tensor: Tensor, position: int) -> Tensor:
    """The vector at a position, or the only one, of the first text of a batch."""
    return (tensor[0, position] if tensor.ndim == 3 else tensor[0]).double().cpu()


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.allclose(first, second, rtol=1e-4, atol=1e-6)
