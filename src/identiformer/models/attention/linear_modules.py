"""Linear modules as matrices, whatever holds their weights: plain, quantized, adapted, or on disk."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from identiformer.errors import UnsupportedModelError
from identiformer.models.offloaded import with_weights
from identiformer.models.replica import replica_of

PLAIN_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
ROUNDING, NONLINEAR = 1e-3, 0.05
"""Differences, relative to the output, between a module and its matrix: above the first it is reported, above the second
rejected. Modules that quantize their input, such as LLM.int8, differ by about 0.01."""
ROWS_AT_ONCE = 1024


def is_linear(module: nn.Module) -> bool:
    """Whether a module says that it maps features linearly; quantized and adapted ones are not always of torch's class."""
    return isinstance(module, nn.Linear | Conv1D) or all(hasattr(module, f"{side}_features") for side in ("in", "out"))


def is_plain(module: Any) -> bool:
    """Whether a module multiplies with its weight, adds its bias, and has nothing else to compute with."""
    if not isinstance(module, nn.Linear | Conv1D) or "forward" in vars(module):  # accelerate replaces the latter
        return False
    if not {name for name, _ in module.named_parameters()} <= {"weight", "bias"}:
        return False
    return type(module.weight) in (nn.Parameter, Tensor) and module.weight.dtype in PLAIN_DTYPES and not module.weight.is_meta


def matrix_of(module: Any, width: int, like: Tensor) -> Tensor:
    """The matrix (input output) of a linear module.

    That of a plain one is its weight, brought in if it is offloaded. Any other is run on the rows of the identity, and on zero
    for its bias.

    width: of the input.
    like: a tensor of the dtype and on the device of the module's input.
    """
    module = with_weights(module)
    if is_plain(module):
        weight = module.weight.detach()
        return weight if isinstance(module, Conv1D) else weight.mT
    replica = replica_of(module)
    with torch.no_grad():
        rows = [replica(part[None])[0] for part in torch.eye(width).to(like).split(ROWS_AT_ONCE)]
        return torch.cat(rows).to(torch.promote_types(like.dtype, torch.float32)) - bias_of(module, width, like)


def bias_of(module: Any, width: int, like: Tensor) -> Tensor:
    """What a linear module makes of zero, (output)."""
    module = with_weights(module)
    if is_plain(module):
        bias = module.bias
        outputs = module.weight.shape[1 if isinstance(module, Conv1D) else 0]
        return torch.zeros(outputs) if bias is None else bias.detach()
    with torch.no_grad():
        return replica_of(module)(torch.zeros(1, 1, width).to(like))[0, 0]


def nonlinearity(module: Any, inputs: Tensor, outputs: Tensor) -> float:
    """How much a module's output differs from that of its matrix, relative to its length; raises if that is too much."""
    module = with_weights(module)
    if is_plain(module):
        return 0.0
    width = inputs.shape[-1]
    expected = inputs.float() @ matrix_of(module, width, inputs).float() + bias_of(module, width, inputs).float()
    difference = float((outputs.float() - expected).norm() / outputs.float().norm())
    if not difference <= NONLINEAR:
        raise UnsupportedModelError(
            f"{type(module).__name__} is not linear: on the first text its output differs by {difference:.1%} from that of its "
            f"matrix, where at most {NONLINEAR:.0%} can be rounding; load the model dequantized."
        )
    return difference
