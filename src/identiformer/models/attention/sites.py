"""Find the linear maps before and after each attention call, by running a model on a few tokens.

No table of architectures is needed. The value map is the linear map whose result is the values: the same memory, which also shows
which feature became which value, or else the same numbers. The output projection is the map that reads the head outputs.
"""

import inspect
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from identiformer.equations.attention.heads import full_row_rank, per_head
from identiformer.errors import ModelWarning, UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.attention.softmax_products import attending_modules
from identiformer.models.linear_maps import ROUNDING, bias_of, is_linear, is_plain, matrix_of, nonlinearity
from identiformer.models.offloaded import is_offloaded
from identiformer.models.replica import hooked

Versions = tuple[tuple[int, int], ...]


@dataclass
class Site:
    """One attention call of a forward pass, and the linear maps around it."""

    path: str
    kind: str
    heads: int
    groups: int
    width: int
    value_map: Any = None
    value_width: int = 0  # of the input of the value map
    value_features: Tensor | None = None  # (group width): the feature of the value map that each value is
    output_map: Any = None
    like: Tensor = field(default_factory=lambda: torch.empty(0))
    """Of the dtype and on the device of the head outputs."""
    _lossy: tuple[Versions, tuple[int, ...]] | None = None
    """Versions of the weights, and the lossy heads; in one attribute, so that threads never see half an update."""

    def projection(self) -> Tensor | None:
        """H, each head's slice of the output projection: (head width model)."""
        if self.output_map is None:
            return None
        width = self.heads * self.width
        if is_plain(self.output_map):
            matrix = matrix_of(self.output_map, width, self.like)
        else:
            matrix = _last_read(self.output_map, _versions(self.output_map), width, self.like.dtype, self.like.device)
        return matrix.cpu().unflatten(0, (self.heads, self.width))

    def stored_projection(self) -> Tensor | Callable[[], Tensor] | None:
        """H where it is a matrix in memory, None where there is none; otherwise a function that reads it."""
        reads = self.output_map is not None and not is_plain(self.output_map)
        return cast(Callable[[], Tensor], self.projection) if reads else self.projection()

    def lossy_heads(self) -> tuple[int, ...]:
        """Heads whose slice of the output projection lacks full row rank; computed again only when the weights change."""
        if self.output_map is None:
            return ()
        state = _versions(self.output_map)
        cached = self._lossy
        if cached is None or cached[0] != state:
            projection = self.projection()
            assert projection is not None
            cached = self._lossy = state, tuple((~full_row_rank(projection.float())).nonzero()[:, 0].tolist())
        return cached[1]

    def value_bias(self) -> Tensor | None:
        """The bias in the values, (group width); zeros where the map has none, None where no map was found."""
        if self.value_features is None:
            return None
        return bias_of(self.value_map, self.value_width, self.like).cpu()[self.value_features]


def _versions(module: nn.Module) -> Versions:
    """What changes when the weights of a module do: their addresses, and how often they were written to."""
    return tuple((parameter.data_ptr(), parameter._version) for parameter in module.parameters())


@lru_cache(maxsize=1)
def _last_read(module: nn.Module, versions: Versions, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix of a linear module; the last one is kept, because measures need it head by head."""
    return matrix_of(module, width, torch.empty(0, dtype=dtype, device=device)).cpu()


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
        self._checked: set[nn.Module] = set()
        self.nonlinearity = 0.0
        self._results: list[tuple[nn.Module, Tensor, int]] = []  # of the linear maps since the last call, and their input width
        self._head_outputs: Tensor | None = None  # of the last call, until a map has read them

    def before_linear(self, linear: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Note whether a linear map projects the last head outputs: of maps inside each other, the outermost."""
        if self._head_outputs is not None and arguments and torch.equal(arguments[0].flatten(), self._head_outputs.flatten()):
            site = self.sites[-1]
            site.output_map = linear if arguments[0].shape[-1] == site.heads * site.width else None
            self._head_outputs = None

    def after_linear(self, linear: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
        """Note a linear map and its result; one that projects head outputs must be linear indeed."""
        if not arguments or not isinstance(result, Tensor):
            if self.sites and self.sites[-1].output_map is linear:  # I-BERT returns a scale with its numbers
                self.sites[-1].output_map = None
            return
        self._results.append((linear, result, arguments[0].shape[-1]))
        if self.sites and self.sites[-1].output_map is linear and linear not in self._checked:
            self._checked.add(linear)
            self.nonlinearity = max(self.nonlinearity, nonlinearity(linear, arguments[0], result))

    def on_call(self, call: Call) -> None:
        """Note an attention call, with the last linear map whose result its values are."""
        path = self.paths.get(call.module, type(call.module).__name__)
        site = Site(path, attention_kind(path, self._encoder_decoder), call.heads, call.value.shape[1], call.value.shape[3])
        site.like = call.output.new_empty(0)
        for linear, result, width in reversed(self._results):
            site.value_features = _features(result, call.value)
            if site.value_features is not None:
                site.value_map, site.value_width = linear, width
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
    linear = list(filter(is_linear, replica.modules()))
    with (
        hooked(replica.modules(), lambda module, _: entered.update([module]), before=True),
        hooked(linear, finder.before_linear, before=True),
        hooked(linear, finder.after_linear),
        recording(replica, WEIGHTS, finder.on_call),
        attending_modules(replica) as attending,
    ):
        finder.paths |= {module: name for name, module in replica.named_modules()}
        result = run()
    _check_all_recorded(family, finder.modules, attending)
    rounded = any(not is_plain(module) and not is_offloaded(module) for module in linear)
    _check_result(family, result[0], expected[0], rounded)
    if finder.nonlinearity > ROUNDING:
        warnings.warn(
            f"the output projections of this model are not exactly linear: their output differs by "
            f"{finder.nonlinearity:.1%} from the product with the matrix that is used in their place, and everything computed "
            "from that matrix has an error of this size; load the model dequantized for exact numbers.",
            ModelWarning,
            stacklevel=2,
        )
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


def _check_result(family: str, recorded: Any, expected: Any, rounded: bool) -> None:
    """Reject a model whose output changes when eager attention, which is the one recorded, replaces its default.

    rounded: whether its weights are quantized or adapted, so that it may round its inputs.
    """
    if not isinstance(expected, Tensor) or not expected.is_floating_point():
        return
    allowed = (1e-3 if expected.dtype in (torch.float32, torch.float64) and not rounded else 0.1) * float(expected.abs().max())
    difference = float((recorded - expected).abs().max())
    if difference > allowed:
        raise UnsupportedModelError(
            f"with eager attention, the only kind that can be recorded, the {family} family returns an output that differs by "
            f"{difference:.2g} from its default; to study it in that form, load it with attn_implementation='eager'."
        )
