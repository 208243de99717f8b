"""Find, by running a model on a few tokens, which weights stand before and behind each attention call.

No table of architectures: the linear map whose result *is* the values (same memory, so that it is known which feature
became which value) made them, and the one that is fed the head outputs (same numbers) projects them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from identiformer.equations import full_row_rank
from identiformer.errors import UnsupportedModelError
from identiformer.models.capture import WEIGHTS, Call, recording

LINEAR = (nn.Linear, Conv1D)


@dataclass
class Site:
    """One attention call of a forward pass, in order, and the linear maps around it."""

    path: str
    heads: int
    groups: int
    width: int
    value_map: nn.Module | None = None
    value_features: Tensor | None = None  # (group width): which feature of the value map each value is
    output_map: nn.Module | None = None
    _checked: tuple[int, int] | None = None
    _lossy: tuple[int, ...] = ()

    def projection(self) -> Tensor | None:
        """H, each head's slice of the output projection: (head width model)."""
        if self.output_map is None:
            return None
        return _weight(self.output_map).detach().cpu().unflatten(0, (self.heads, self.width))

    def lossy_heads(self) -> tuple[int, ...]:
        """Heads whose slice of the output projection has not full row rank; looked up anew only when the weights change."""
        projection = self.projection()
        if projection is None:
            return ()
        state = (projection.data_ptr(), projection._version)
        if self._checked != state:
            self._checked = state
            self._lossy = tuple((~full_row_rank(projection.float())).nonzero()[:, 0].tolist())
        return self._lossy

    def value_bias(self) -> Tensor | None:
        """The bias within the values, (group width); zeros where the map has none, None where no map was found."""
        if self.value_map is None or self.value_features is None:
            return None
        bias = self.value_map.bias
        if not isinstance(bias, Tensor):
            return torch.zeros(self.groups, self.width)
        return bias.detach().cpu()[self.value_features]


def _weight(linear: nn.Module) -> Tensor:
    """The weight as (input output)."""
    weight = linear.weight
    assert isinstance(weight, Tensor)
    return weight if isinstance(linear, Conv1D) else weight.mT


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def discover(model: nn.Module, run: Callable[[], Any]) -> list[Site]:
    """The attention sites of a model, in the order of their calls; `run` runs it on a few tokens."""
    paths = {id(module): name for name, module in model.named_modules()}
    sites: list[Site] = []
    made: list[tuple[nn.Module, Tensor]] = []
    last_output: list[Tensor] = []

    def on_linear(linear: nn.Module, arguments: tuple[Any, ...], result: Tensor) -> None:
        if last_output and arguments and torch.equal(arguments[0].flatten(), last_output[0].flatten()):
            fits = arguments[0].shape[-1] == sites[-1].heads * sites[-1].width
            sites[-1].output_map = linear if fits else None
            last_output.clear()
        made.append((linear, result))

    def on_call(call: Call) -> None:
        _, groups, _, width = call.value.shape
        site = Site(paths.get(id(call.module), type(call.module).__name__), call.query.shape[1], groups, width)
        for linear, result in reversed(made):
            if _memory(result) == _memory(call.value) and result.is_contiguous():
                offset = call.value.storage_offset() - result.storage_offset()
                by_group = torch.arange(groups)[:, None] * call.value.stride(1)
                by_width = torch.arange(width) * call.value.stride(3)
                site.value_map = linear
                site.value_features = torch.remainder(by_group + by_width + int(offset), result.shape[-1])
                break
        made.clear()
        last_output[:] = [call.output]
        sites.append(site)

    hooks = [module.register_forward_hook(on_linear) for module in model.modules() if isinstance(module, LINEAR)]
    try:
        with recording(model, WEIGHTS, on_call):
            run()
    finally:
        for hook in hooks:
            hook.remove()
    _check_count(model, len(sites))
    return sites


def _check_count(model: nn.Module, found: int) -> None:
    """Refuse a model whose attention, in part or whole, does not pass through the attention interface."""
    config: Any = model.config
    family = getattr(config, "model_type", type(model).__name__)
    kinds = getattr(config, "layer_types", None)
    if kinds:
        expected = sum("attention" in kind and "linear" not in kind for kind in kinds)
    else:
        expected = getattr(config, "num_hidden_layers", 1)
    if found < expected:
        raise UnsupportedModelError(
            f"the {family} family computes its attention outside the interface that can be recorded ({found} of {expected} "
            f"layers were seen); use a model of another family, such as BERT, GPT-2 or Llama."
        )
