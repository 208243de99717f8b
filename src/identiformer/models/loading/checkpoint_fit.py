"""Check that a model fits its files: in size while it is built, and in every weight that matters afterwards."""

import re
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_buffer_registration_hook, register_module_parameter_registration_hook
from transformers import PreTrainedModel

from identiformer.errors import ModelError, ModelWarning
from identiformer.models.encoding.image_audio import random_audio, random_image, takes_audio, takes_images
from identiformer.models.loading.weight_files import WeightFiles

Shapes = dict[tuple[int, str], torch.Size]
"""The shape of each parameter, by the id of its module and its name there."""

MOST_WEIGHTS_PER_BYTE = 8
"""Quantized weights take 1.5 bits or more, and a tied one counts wherever it is used."""
SPARE_WEIGHTS = 2**26
SPARE_BYTES = 2**30
"""What a model may hold that its files do not: unused heads, tables of positions."""
MOST_PARAMETERS_PER_TENSOR, SPARE_PARAMETERS = 8, 2_000

LAST_STATES = ("last_hidden_state", "encoder_last_hidden_state")
"""Whatever an earlier hidden state or attention depends on, these do too."""
SHOWN = 3
REAL = re.compile(r"(torch\.)?b?f", re.IGNORECASE)
"""How the types of real numbers begin: F32, BF16, torch.float32."""


@contextmanager
def size_limit(files: WeightFiles, name: str) -> Iterator[Shapes]:
    """Reject a model that is built in this context, in this thread, as soon as it exceeds what its files can fill.

    transformers builds on torch's meta device, where nothing is allocated yet. Yields the shapes that the model was built with.
    """
    shapes: Shapes = {}
    weights = table_bytes = 0
    most_weights = MOST_WEIGHTS_PER_BYTE * files.size + SPARE_WEIGHTS
    most_parameters = None if files.tensors is None else MOST_PARAMETERS_PER_TENSOR * files.tensors + SPARE_PARAMETERS
    builder = threading.get_ident()

    def require(holds: bool, limit: str) -> None:
        if not holds:
            raise ModelError(
                f"expected a model that the weights in {name} ({files.size:,} bytes) can fill, got a configuration that asks "
                f"for more than {limit}; get the configuration that belongs to them."
            )

    def on_tensor(module: nn.Module, key: str, tensor: Tensor | None) -> None:
        nonlocal weights, table_bytes
        if tensor is None or not tensor.is_meta or threading.get_ident() != builder:
            return
        if isinstance(tensor, nn.Parameter):
            weights += tensor.numel() - shapes.get((id(module), key), torch.Size((0,))).numel()
            shapes[id(module), key] = tensor.shape
            require(weights <= most_weights, f"{most_weights:,} weights")
            require(most_parameters is None or len(shapes) <= most_parameters, f"{most_parameters or 0:,} parameters")
        else:
            table_bytes += tensor.numel() * tensor.itemsize
            require(table_bytes <= most_weights + SPARE_BYTES, f"{table_bytes:,} bytes of other tables")

    with register_module_parameter_registration_hook(on_tensor), register_module_buffer_registration_hook(on_tensor):
        yield shapes


def check_fit(network: PreTrainedModel, report: Mapping[str, Any], shapes: Shapes, files: WeightFiles, name: str) -> None:
    """Reject a model whose files lack weights that matter, hold them twice, in another shape, or not as real numbers.

    `report` is transformers' loading info, `shapes` are those that the model was built with. A pooler or head that no hidden
    state depends on may be missing: transformers initializes it at random.
    """
    _check_stored(network, files, name)
    misshaped = {key: (tuple(stored), tuple(built)) for key, stored, built in report["mismatched_keys"]}
    misshaped |= _changed(network, shapes)  # transformers does not compare the shapes in GGUF files
    needed = weights_that_matter(network, sorted({*report["missing_keys"], *misshaped}))
    wrong = [key for key in needed if key in misshaped]
    if wrong:
        stored, built = misshaped[wrong[0]]
        raise ModelError(
            f"expected {wrong[0]} of shape {built} in the files of {name}, as its configuration says, got {stored}"
            f"{_more(len(wrong) - 1, 'more that do not fit')}; get the configuration that belongs to the weights."
        )
    if needed:
        unused = sorted(report["unexpected_keys"])
        held = f" where they hold {', '.join(unused[:SHOWN])}{_more(len(unused) - SHOWN)}" if unused else ""
        raise ModelError(
            f"expected all weights of {type(network).__name__} in the files of {name}, got none for "
            f"{', '.join(needed[:SHOWN])}{_more(len(needed) - SHOWN)}{held}; get a complete copy of the model."
        )
    leftover = [key for key in sorted(report["unexpected_keys"]) if _is_in_a_layer(network, key)]
    if leftover:
        warnings.warn(
            f"the files of {name} hold weights of layers that {type(network).__name__} does not use, such as {leftover[0]}"
            f"{_more(len(leftover) - 1)}; check that its configuration belongs to them.",
            ModelWarning,
            stacklevel=2,
        )


def _check_stored(network: PreTrainedModel, files: WeightFiles, name: str) -> None:
    """Reject what transformers would choose or cast: a second copy of a weight, and one that is not stored as real numbers."""
    tensors = network.state_dict()
    real = {_plain(network, key) for key, tensor in tensors.items() if tensor.is_floating_point()}
    copies: defaultdict[str, list[str]] = defaultdict(list)
    for key in files.dtypes:
        copies[_plain(network, key)].append(key)
    twice = sorted(keys for keys in copies.values() if len(keys) > 1 and not set(keys) <= tensors.keys())
    if twice:
        raise ModelError(
            f"expected one copy of each weight in the files of {name}, got {' and '.join(sorted(twice[0]))}"
            f"{_more(len(twice) - 1, 'more weights twice')}; remove one of them."
        )
    if getattr(network.config, "quantization_config", None) is not None:
        return
    cast = [
        key
        for key, dtype in sorted(files.dtypes.items())
        if not REAL.match(dtype) and (key.endswith(".weight") or _plain(network, key) in real)
    ]
    if cast:
        raise ModelError(
            f"expected real numbers for {cast[0]} in the files of {name}, whose configuration has no quantization_config, got "
            f"{files.dtypes[cast[0]].removeprefix('torch.')}{_more(len(cast) - 1, 'more such weights')}; get the configuration "
            "that belongs to them."
        )


def _plain(network: PreTrainedModel, key: str) -> str:
    """The name of a weight in the model without a head, as transformers spells it today."""
    plain = key.removeprefix(f"{network.base_model_prefix}.")
    return plain.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _more(count: int, what: str = "more") -> str:
    return f" and {count} {what}" if count > 0 else ""


def _changed(network: nn.Module, shapes: Shapes) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Parameters that no longer have the shape that the model was built with: their shape now, and then."""
    return {
        f"{path}.{key}" if path else key: (tuple(parameter.shape), tuple(built))
        for path, module in network.named_modules()
        for key, parameter in module.named_parameters(recurse=False)
        if (built := shapes.get((id(module), key), parameter.shape)) != parameter.shape
    }


def weights_that_matter(network: PreTrainedModel, keys: list[str]) -> list[str]:
    """The weights among `keys` that hidden states and attention depend on.

    All weights of a layer count, because a run uses only some of the experts among which a router chooses. Other weights matter
    if a hidden state has a derivative with respect to them, in a run on a short input; in a model that cannot be run so, all do.
    """
    others = {key: network.get_parameter_or_buffer(key) for key in keys if not _is_in_a_layer(network, key)}
    floats = {key: tensor for key, tensor in others.items() if tensor.is_floating_point()}  # integers are counters and masks
    used = _used(network, list(floats.values())) if floats else []
    idle = {key for key, is_used in zip(floats, used, strict=True) if not is_used} | (others.keys() - floats.keys())
    return [key for key in keys if key not in idle]


def _is_in_a_layer(network: PreTrainedModel, key: str) -> bool:
    """Whether a weight is in one of several similar blocks; its key may carry the prefix of a model with a head."""
    parts = key.removeprefix(f"{network.base_model_prefix}.").split(".")
    module: Any = network
    for part in parts:
        if isinstance(module, nn.ModuleList):
            return True
        module = getattr(module, part, None)
    return False


def _used(network: PreTrainedModel, tensors: list[Tensor]) -> list[bool]:
    """Whether a hidden state depends on each of some weights; True if the model does not run."""
    try:
        with ExitStack() as restore, torch.random.fork_rng(devices=()), torch.enable_grad():
            for parameter in network.parameters():
                restore.callback(parameter.requires_grad_, parameter.requires_grad)
                parameter.requires_grad_(False)
            for tensor in tensors:
                restore.callback(tensor.requires_grad_, False)
                tensor.requires_grad_()
            result = network.base_model(**_short_inputs(network))
            states = [state for key in LAST_STATES if (state := getattr(result, key, None)) is not None]
            if not states:
                return [True] * len(tensors)
            depending = [state.sum() for state in states if state.requires_grad]
            gradients = torch.autograd.grad(depending, tensors, allow_unused=True) if depending else [None] * len(tensors)
            return [gradient is not None for gradient in gradients]
    except Exception:  # a model may raise anything on such an input
        return [True] * len(tensors)


def _short_inputs(network: PreTrainedModel) -> dict[str, Tensor]:
    if takes_images(network) or takes_audio(network):
        tensor = random_image(network) if takes_images(network) else random_audio(network)
        inputs = {network.main_input_name: tensor[None].to(network.dtype)}
    else:
        table: Any = network.get_input_embeddings()
        ids = torch.arange(4)[None] % len(table.weight)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if network.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.zeros(1, 2, dtype=torch.long)
    return inputs
