"""Find, by running a model on a few tokens, which weights stand before and behind each attention call.

No table of architectures: the linear map whose result *is* the values (same memory, so that it is known which feature
became which value) made them, and the one that is fed the head outputs (same numbers) projects them.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from identiformer.equations.attention.heads import full_row_rank, per_head
from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.attention.softmax_products import attending_modules

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
    _lossy: tuple[tuple[int, int], tuple[int, ...]] | None = None
    """Of which weights, by address and version, and which heads: kept as one, so that no thread finds half of it."""

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
        kept = self._lossy
        if kept is None or kept[0] != state:
            kept = self._lossy = state, tuple((~full_row_rank(projection.float())).nonzero()[:, 0].tolist())
        return kept[1]

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


def backbone_of(network: Any) -> Any:
    """A network without its task head; itself where what it calls its base is only a part of it, as in DINOv3."""
    base = network.base_model
    return base if network.main_input_name in _arguments(type(base)) else network


@cache
def _arguments(kind: type) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)


def discover(model: nn.Module, replica: nn.Module, run: Callable[[], Any]) -> list[Site]:
    """The attention sites of a model, in the order of their calls; `run` runs its replica on a few tokens."""
    originals = dict(zip(replica.modules(), model.modules(), strict=True))
    sites = _discover(replica, run)
    for site in sites:  # weights are read from the model itself, in which they may be replaced
        site.value_map, site.output_map = (
            None if found is None else originals.get(found, found) for found in (site.value_map, site.output_map)
        )
    return sites


def _discover(model: nn.Module, run: Callable[[], Any]) -> list[Site]:
    paths: dict[nn.Module, str] = {}
    sites: list[Site] = []
    recorded: list[nn.Module] = []
    entered: Counter[nn.Module] = Counter()
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
        site = Site(paths.get(call.module, type(call.module).__name__), call.heads, groups, width)
        for linear, result in reversed(made):
            features = _features(result, call.value)
            if features is not None:
                site.value_map, site.value_features = linear, features
                break
        made.clear()
        recorded.append(call.module)
        _refuse_other_output(call)
        last_output[:] = [call.output]
        sites.append(site)

    with torch.no_grad():
        own = run()
    hooks = [module.register_forward_hook(on_linear) for module in model.modules() if isinstance(module, LINEAR)]
    hooks += [module.register_forward_pre_hook(lambda module, _: entered.update([module])) for module in model.modules()]
    try:
        with recording(model, WEIGHTS, on_call), attending_modules(model) as attending:
            paths |= {module: name for name, module in model.named_modules()}
            result = run()
    finally:
        for hook in hooks:
            hook.remove()
    _refuse_what_was_missed(model, recorded, attending)
    _refuse_other_result(model, result, own)
    for module, calls in Counter(recorded).items():
        times = calls / max(1, entered[module])  # one put in for the time of recording is entered unseen
        if times > 1:
            raise UnsupportedModelError(
                f"{type(module).__name__} attends {times:.0f} times in one layer and mixes the outcomes, so that no attention "
                "times its values is what the layer gives; use a model of another family."
            )
    return sites


def _refuse_other_result(model: nn.Module, recorded: Any, own: Any) -> None:
    """Refuse a model that gives something else with eager attention, which is recorded, than with what it is set to."""
    found, expected = (result[0] for result in (recorded, own))
    if not isinstance(expected, Tensor) or not expected.is_floating_point():
        return
    allowed = (1e-3 if expected.dtype in (torch.float32, torch.float64) else 0.1) * float(expected.abs().max())
    difference = float((found - expected).abs().max())
    if difference > allowed:
        family = getattr(model.config, "model_type", type(model).__name__)
        raise UnsupportedModelError(
            f"with eager attention, which is what can be recorded, the {family} family gives an output that differs by "
            f"{difference:.2g} from its own; if that is what you want to look at, load it with attn_implementation='eager'."
        )


def _refuse_other_output(call: Call) -> None:
    """Refuse weights whose product with the values is not what the attention gives, as where a sink scales it afterwards."""
    assert call.weights is not None
    product = call.weights.to(call.value) @ per_head(call.value, call.heads, 1)
    own = call.output.transpose(1, 2)
    rounding = 100 * max(torch.finfo(call.value.dtype).eps, torch.finfo(torch.float32).eps) * float(own.abs().max())
    if not float((product - own).abs().max()) <= rounding:
        raise UnsupportedModelError(
            f"the weights that {type(call.module).__name__} gives out, times its values, are not what it goes on with; what "
            "shapes the output besides is not known here, so use a model of another family."
        )


def _features(result: Tensor, value: Tensor) -> Tensor | None:
    """Which feature of a linear map's result each value is, (group width): by memory, or where it was copied by its numbers."""
    if _memory(result) == _memory(value) and result.is_contiguous():
        offset = value.storage_offset() - result.storage_offset()
        by_group = torch.arange(value.shape[1])[:, None] * value.stride(1)
        by_width = torch.arange(value.shape[3]) * value.stride(3)
        return torch.remainder(by_group + by_width + int(offset), result.shape[-1])
    columns = result.detach().cpu().flatten(0, -2).mT.float().contiguous().numpy()
    wanted = value[0].detach().cpu().mT.flatten(0, 1).float().contiguous().numpy()
    places = {column.tobytes(): place for place, column in enumerate(columns)}
    found = [places.get(column.tobytes()) for column in wanted]
    if None in found or len(places) < len(columns):
        return None
    return torch.tensor(found).view(value.shape[1], value.shape[3])


def _refuse_what_was_missed(model: nn.Module, recorded: list[nn.Module], attending: list[tuple[nn.Module, ...]]) -> None:
    """Refuse a model whose attention was not recorded in part or whole, and one that has none."""
    family = getattr(model.config, "model_type", type(model).__name__)
    known = set(recorded)
    missed = sorted({type(running[-1]).__name__ for running in attending if not known.intersection(running)})
    if missed:
        raise UnsupportedModelError(
            f"the {family} family attends in {' and '.join(missed)} in a way that cannot be recorded; use a model of another "
            "family, such as BERT, GPT-2 or Llama."
        )
    if not recorded:
        raise UnsupportedModelError(
            f"no softmax attention was seen in the {family} family: it has none, or attends in another way, such as a "
            "recurrence, a convolution or hashing; only its hidden states can be looked at."
        )


def attention_kind(path: str, encoder_decoder: bool) -> str:
    """Which part of a model an attention module belongs to, by its path."""
    if not encoder_decoder:
        return "self"
    names = path.lower().split(".")
    if any("cross" in name or name in ("encoder_attn", "encdecattention", "encoder_decoder_attention") for name in names):
        return "cross"
    return "decoder" if any("decoder" in name for name in names) else "encoder"
