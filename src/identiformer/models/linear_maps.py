"""Linear modules as matrices, and as maps that torch can differentiate in float32, whatever holds their weights.

Weights may be plain, quantized, adapted, or on disk. A network in float32 reads those of a map when it uses the map, so that they
are never all in memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from identiformer.errors import UnsupportedModelError
from identiformer.models.offloaded import bring_in, device_of, is_offloaded, with_weights
from identiformer.models.replica import replica_of

PRECISE = (torch.float32, torch.float64)
PLAIN_DTYPES = (*PRECISE, torch.bfloat16, torch.float16)
"""Dtypes in which torch multiplies and adds; smaller floats only store weights."""
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


class LinearMap(nn.Module):
    """x ↦ xW + b for the W and b of another module, in float32. Its adapters are merged, its weights dequantized."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self._module = (module,)  # not a submodule, whose weights would count as those of the network
        features = ("nx", "nf") if isinstance(module, Conv1D) else ("in_features", "out_features")
        self.in_features, self.out_features = (getattr(module, name) for name in features)
        tensors = (*module.parameters(), *module.buffers())
        dtype = next((tensor.dtype for tensor in tensors if tensor.dtype in PLAIN_DTYPES), torch.float32)
        self._like = torch.empty(0, dtype=dtype, device=device_of(module))

    @property
    def weight(self) -> Tensor:
        """W transposed, (output input), read again each time."""
        with _plain_tensors():
            return _precise(matrix_of(self._module[0], self.in_features, self._like)).mT

    @property
    def bias(self) -> Tensor:
        """b, read again each time."""
        with _plain_tensors():
            return _precise(bias_of(self._module[0], self.in_features, self._like))

    def forward(self, inputs: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if not (inputs.requires_grad and torch.is_grad_enabled()):
            return functional.linear(inputs, weight, bias)
        address = weight.untyped_storage().data_ptr()

        def pack(saved: Tensor) -> Any:
            is_weight = saved.untyped_storage().data_ptr() == address
            return (saved.shape, saved.stride(), saved.storage_offset()) if is_weight else saved

        def unpack(packed: Any) -> Tensor:
            return packed if isinstance(packed, Tensor) else self.weight.as_strided(*packed)

        with saved_tensors_hooks(pack, unpack):  # a gradient reads the weights again, instead of keeping those of all layers
            return functional.linear(inputs, weight, bias)


class Table(nn.Module):
    """The vectors of an embedding, in float32."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self._embedding = (embedding,)

    @property
    def weight(self) -> Tensor:
        """All vectors, which relative positions of DeBERTa are computed from."""
        with _plain_tensors():
            return _precise(with_weights(self._embedding[0]).weight)

    def forward(self, ids: Tensor) -> Tensor:
        with _plain_tensors():
            return _precise(self._embedding[0](ids))


def in_float32(network: Any) -> Any:
    """A replica of a network in the precision that derivatives need; the replica itself is changed where it needs another."""
    converted: dict[nn.Module, nn.Module] = {}  # ALBERT uses a module several times

    def convert(module: nn.Module) -> nn.Module:
        if module not in converted:
            converted[module] = module
            if is_linear(module):
                converted[module] = module if _is_precise(module) else LinearMap(module)
            elif type(module) is nn.Embedding and not _is_precise(module):
                converted[module] = Table(module)
            else:
                _convert_weights(module)
                for name, child in module.named_children():
                    module._modules[name] = convert(child)
        return converted[module]

    return convert(network)


def reads_weights(network: nn.Module) -> bool:
    """Whether linear maps of a network are read when they are used."""
    return any(isinstance(module, LinearMap) for module in network.modules())


def _is_precise(module: nn.Module) -> bool:
    """Whether a module computes with weights of its own, in memory, in the precision that derivatives need."""
    weights = list(module.parameters(recurse=False))
    return bool(weights) and all(
        type(weight) is nn.Parameter and weight.dtype in PRECISE and not weight.is_meta for weight in weights
    )


def _convert_weights(module: Any) -> None:
    """Convert the weights and buffers of a module of a replica, not counting its submodules."""
    if is_offloaded(module):
        bring_in(module)
    for tensors in (module._parameters, module._buffers):
        for name, tensor in tensors.items():
            if tensor is None or tensor.dtype in PRECISE:
                continue
            if tensor.dtype in PLAIN_DTYPES:
                tensors[name] = tensor.detach().float() if tensors is module._buffers else nn.Parameter(tensor.detach().float())
            elif isinstance(tensor, nn.Parameter):
                raise UnsupportedModelError(
                    f"{type(module).__name__} has quantized weights ({name}) that are not those of a linear map and have no "
                    "derivatives; load the model dequantized."
                )


@contextmanager
def _plain_tensors() -> Iterator[None]:
    """Compute without derivatives; while torch.func differentiates, it wraps whatever is read, and wrappers have no memory."""
    with temporarily_clear_interpreter_stack(), torch.no_grad():
        yield


def _precise(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
