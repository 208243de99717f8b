"""The state of a network, and of the process as far as a run might change it, in a form that can be compared."""

import warnings
from types import MethodType
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

INITIALIZERS = ("normal_", "uniform_", "constant_", "zeros_", "kaiming_uniform_", "xavier_uniform_")
PLAIN = (bool, int, float, str, type(None))


def network_state(network: nn.Module) -> dict[str, Any]:
    """Every attribute of every module: weights, buffers, hooks of all kinds, patched methods, modes, configurations."""
    modules = {name: _held(vars(module)) for name, module in network.named_modules(remove_duplicate=False)}
    return {**modules, "state_dict": list(network.state_dict())}


def _held(value: Any) -> Any:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, torch.Tensor):
        return id(value), value.data_ptr(), value._version, value.requires_grad, id(value.grad), str(value.dtype)
    if isinstance(value, PreTrainedConfig):
        return id(value), _held(vars(value))
    if isinstance(value, dict):
        return [(key, _held(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_held(item) for item in value]
    if isinstance(value, set):
        return sorted(map(str, value))
    if isinstance(value, MethodType):
        return id(value.__self__), id(value.__func__)
    return id(value)


def _initializer(name: str) -> Any:
    return getattr(nn.init, name)


def process_state() -> dict[str, Any]:
    """State that all threads of the process share."""
    return {
        "verbosity": transformers.logging.get_verbosity(),
        "bars": transformers.logging.is_progress_bar_enabled(),
        "warnings": list(warnings.filters),
        "kernels": [getattr(torch.backends.cuda, f"{kind}_sdp_enabled")() for kind in ("flash", "mem_efficient", "math")],
        "dtype": torch.get_default_dtype(),
        "building": (PreTrainedModel.tie_weights, PreTrainedModel._init_weights, *map(_initializer, INITIALIZERS)),
        "module": (nn.Module.__call__, nn.Module.__getattr__),
        "attention": sorted(ALL_ATTENTION_FUNCTIONS.valid_keys()),
    }
