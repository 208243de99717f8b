"""Find the linear maps before and after each attention call, by running a model on a few tokens.

No table of architectures is needed. The value map is the linear map whose result is the values: the same memory, which also shows
which feature became which value, or else the same numbers. The output projection is the map that reads the head outputs.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
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


@dataclass
class Site:
    """One attention call of a forward pass, and the linear maps around it."""

    path: str
    kind: str
    heads: int
    groups: int
    width: int
    value_map: Any = None
    value_features: Tensor | None = None  # (group width): the feature of the value map that each value is
    output_map: Any = None
    _lossy: tuple[tuple[int, int], tuple[int, ...]] | None = None
    """Address and version of the weights, and the lossy heads; in one attribute, so that threads never see half an update."""

    def projection(self) -> Tensor | None:
        """H, each head's slice of the output projection: (head width model)."""
        if self.output_map is None:
            return None
        weight = self.output_map.weight
        by_input = weight if isinstance(self.output_map, Conv1D) else weight.mT
        return by_input.detach().cpu().unflatten(0, (self.heads, self.width))

    def lossy_heads(self) -> tuple[int, ...]:
        """Heads whose slice of the output projection lacks full row rank; computed again only when the weights change."""
        projection = self.projection()
        if projection is None:
            return ()
        state = (projection.data_ptr(), projection._version)
        cached = self._lossy
        if cached is None or cached[0] != state:
            cached = self._lossy = state, tuple((~full_row_rank(projection.float())).nonzero()[:, 0].tolist())
        return cached[1]

    def value_bias(self) -> Tensor | None:
        """The bias in the values, (group width); zeros where the map has none, None where no map was found."""
        if self.value_features is None:
            return None
        bias = self.value_map.bias
        return torch.zeros(self.groups, self.width) if bias is None else bias.detach().cpu()[self.value_features]


def backbone_of(network: Any) -> Any:
    """A network without its task head; the network itself where its base model is only a part of it, as in DINOv3."""
    base = network.base_model
    return base if network.main_input_name in _arguments(type(base)) else network


@cache
def _arguments(kind: type) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)


def attention_kind(path: str, encoder_decoder: bool) -> str:
    """The attention type of a module, by its path."""
    if not encoder_decoder:
        return "self"
    names = path.lower().split(".")
    if any("cross" in name or name in ("encoder_attn", "encdecattention", "encoder_decoder_attention") for name in names):
        return "cross"
    return "decoder" if any("decoder" in name for name in names) else "encoder"


class _SiteFinder:
    """Builds the sites of one run from its attention calls and the linear maps between them."""

    def __init__(self, encoder_decoder: bool) -> None:
        self.sites: list[Site] = []
        self.modules: list[nn.Module] = []  # of each call
        self.paths: dict[nn.Module, str] = {}
        self._encoder_decoder = encoder_decoder
        self._results: list[tuple[nn.Module, Tensor]] = []  # of the linear maps since the last call
        self._head_outputs: Tensor | None = None  # of the last call, until a map has read them

    def on_linear(self, linear: nn.Module, arguments: tuple[Any, ...], result: Tensor) -> None:
        """Note a linear map, and whether it projects the last head outputs."""
        if self._head_outputs is not None and arguments and torch.equal(arguments[0].flatten(), self._head_outputs.flatten()):
            site = self.sites[-1]
            site.output_map = linear if arguments[0].shape[-1] == site.heads * site.width else None
            self._head_outputs = None
        self._results.append((linear, result))

    def on_call(self, call: Call) -> None:
        """Note an attention call, with the last linear map whose result its values are."""
        path = self.paths.get(call.module, type(call.module).__name__)
        site = Site(path, attention_kind(path, self._encoder_decoder), call.heads, call.value.shape[1], call.value.shape[3])
        for linear, result in reversed(self._results):
            site.value_features = _features(result, call.value)
            if site.value_features is not None:
                site.value_map = linear
                break
        self._results.clear()
        _check_output(call)
        self._head_outputs = call.output
        self.modules.append(call.module)
        self.sites.append(site)


def discover(model: nn.Module, replica: nn.Module, run: Callable[[], Any], encoder_decoder: bool) -> list[Site]:
    """The attention sites of a model in the order of their calls; `run` runs its replica on a few tokens."""
    family = str(getattr(replica.config, "model_type", type(replica).__name__))
    with torch.no_grad():
        expected = run()
    finder = _SiteFinder(encoder_decoder)
    entered: Counter[nn.Module] = Counter()
    originals = dict(zip(replica.modules(), model.modules(), strict=True))
    with ExitStack() as hooks:
        for module in replica.modules():
            hooks.enter_context(module.register_forward_pre_hook(lambda module, _: entered.update([module])))
            if isinstance(module, nn.Linear | Conv1D):
                hooks.enter_context(module.register_forward_hook(finder.on_linear))
        hooks.enter_context(recording(replica, WEIGHTS, finder.on_call))
        attending = hooks.enter_context(attending_modules(replica))
        finder.paths |= {module: name for name, module in replica.named_modules()}
        result = run()
    _check_all_recorded(family, finder.modules, attending)
    _check_result(family, result[0], expected[0])
    for module, calls in Counter(finder.modules).items():
        per_layer = calls / max(1, entered[module])  # a module that replaces another during recording has no hook
        if per_layer > 1:
            raise UnsupportedModelError(
                f"{type(module).__name__} attends {per_layer:.0f} times per layer and mixes the results, so that no single "
                "attention map times its values is the layer's output; use a model of another family."
            )
    for site in finder.sites:  # weights are read from the model itself, where the user may replace them
        site.value_map = originals.get(site.value_map, site.value_map)
        site.output_map = originals.get(site.output_map, site.output_map)
    return finder.sites


def _features(result: Tensor, value: Tensor) -> Tensor | None:
    """The feature of a linear map's result that each value is, (group width): by memory, or by its numbers where copied."""
    if result.untyped_storage().data_ptr() == value.untyped_storage().data_ptr() and result.is_contiguous():
        offset = value.storage_offset() - result.storage_offset()
        by_group = torch.arange(value.shape[1])[:, None] * value.stride(1)
        by_width = torch.arange(value.shape[3]) * value.stride(3)
        return torch.remainder(by_group + by_width + int(offset), result.shape[-1])
    columns = result.detach().cpu().flatten(0, -2).mT.float().contiguous().numpy()
    wanted = value[0].detach().cpu().mT.flatten(0, 1).float().contiguous().numpy()
    index = {column.tobytes(): number for number, column in enumerate(columns)}
    features = [index.get(column.tobytes()) for column in wanted]
    if None in features or len(index) < len(columns):
        return None
    return torch.tensor(features).view(value.shape[1], value.shape[3])


def _check_output(call: Call) -> None:
    """Reject weights whose product with the values is not the head output, as where a sink scales it afterwards."""
    outputs = call.output.transpose(1, 2)
    product = None if call.weights is None else call.weights.to(call.value) @ per_head(call.value, call.heads, 1)
    rounding = 100 * max(torch.finfo(call.value.dtype).eps, torch.finfo(torch.float32).eps) * float(outputs.abs().max())
    if product is None or not float((product - outputs).abs().max()) <= rounding:
        raise UnsupportedModelError(
            f"the weights that {type(call.module).__name__} returns, times its values, are not the head outputs that it uses; "
            "something else shapes its output, so use a model of another family."
        )


def _check_all_recorded(family: str, recorded: list[nn.Module], attending: list[tuple[nn.Module, ...]]) -> None:
    """Reject a model without softmax attention, or with attention that was not recorded."""
    known = set(recorded)
    missed = sorted({type(running[-1]).__name__ for running in attending if not known.intersection(running)})
    if missed:
        raise UnsupportedModelError(
            f"the {family} family attends in {' and '.join(missed)} in a way that cannot be recorded; use a model of another "
            "family, such as BERT, GPT-2 or Llama."
        )
    if not recorded:
        raise UnsupportedModelError(
            f"no softmax attention was observed in the {family} family: it has none, or uses another mechanism, such as a "
            "recurrence, a convolution or hashing; only its hidden states can be studied."
        )


def _check_result(family: str, recorded: Any, expected: Any) -> None:
    """Reject a model whose output changes when eager attention, which is the one recorded, replaces its default."""
    if not isinstance(expected, Tensor) or not expected.is_floating_point():
        return
    allowed = (1e-3 if expected.dtype in (torch.float32, torch.float64) else 0.1) * float(expected.abs().max())
    difference = float((recorded - expected).abs().max())
    if difference > allowed:
        raise UnsupportedModelError(
            f"with eager attention, the only kind that can be recorded, the {family} family returns an output that differs by "
            f"{difference:.2g} from its default; to study it in that form, load it with attn_implementation='eager'."
        )
