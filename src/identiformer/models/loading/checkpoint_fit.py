"""Whether a model's files held every weight that its hidden states and attention depend on, each in the right shape."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from identiformer.errors import ModelError, ModelWarning
from identiformer.models.encoding.image_audio import random_audio, random_image, takes_audio, takes_images
from identiformer.models.loading.size_limit import Shapes

LAST_STATES = ("last_hidden_state", "encoder_last_hidden_state")
"""Whatever an earlier hidden state or attention depends on, these do too."""
SHOWN = 3


def check_fit(network: PreTrainedModel, report: Mapping[str, Any], shapes: Shapes, name: str) -> None:
    """Reject a model whose files lack weights that matter, or hold them in another shape; say which.

    report: transformers' loading info. shapes: those that the model was built with.
    A pooler or a head that no hidden state depends on may be missing: transformers draws it at random.
    """
    misshaped = {key: (tuple(stored), tuple(built)) for key, stored, built in report["mismatched_keys"]}
    misshaped |= _changed(network, shapes)  # of GGUF files, transformers does not compare shapes
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


def _more(count: int, what: str = "more") -> str:
    return f" and {count} {what}" if count > 0 else ""


def _changed(network: nn.Module, shapes: Shapes) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Parameters that no longer have the shape that the model was built with: what they have, and what they had."""
    return {
        f"{path}.{key}" if path else key: (tuple(parameter.shape), tuple(built))
        for path, module in network.named_modules()
        for key, parameter in module.named_parameters(recurse=False)
        if (built := shapes.get((id(module), key), parameter.shape)) != parameter.shape
    }


def weights_that_matter(network: PreTrainedModel, keys: list[str]) -> list[str]:
    """Those of some weights that hidden states and attention depend on.

    Layers count as a whole: of experts that a router chooses among, a run uses only some. Other weights matter where a hidden
    state has a derivative with respect to them, in a run on a short input; all do in a model that cannot be run so.
    """
    others = {key: network.get_parameter_or_buffer(key) for key in keys if not _is_in_a_layer(network, key)}
    floats = {key: tensor for key, tensor in others.items() if tensor.is_floating_point()}  # integers are counters and masks
    used = _used(network, list(floats.values())) if floats else []
    idle = {key for key, is_used in zip(floats, used, strict=True) if not is_used} | (others.keys() - floats.keys())
    return [key for key in keys if key not in idle]


def _is_in_a_layer(network: PreTrainedModel, key: str) -> bool:
    """Whether a weight belongs to one of several blocks of the same kind; it may carry the prefix of a model with a head."""
    parts = key.removeprefix(f"{network.base_model_prefix}.").split(".")
    module: Any = network
    for part in parts:
        if isinstance(module, nn.ModuleList):
            return True
        module = getattr(module, part, None)
    return False


def _used(network: PreTrainedModel, tensors: list[Tensor]) -> list[bool]:
    """Whether a hidden state depends on each of some weights."""
    required = {parameter: parameter.requires_grad for parameter in network.parameters()}
    try:
        for parameter in required:
            parameter.requires_grad_(False)
        for tensor in tensors:
            tensor.requires_grad_()
        with torch.random.fork_rng(devices=()), torch.enable_grad():
            result = network(**_short_inputs(network))
        states = [state for key in LAST_STATES if (state := getattr(result, key, None)) is not None]
        if not states:
            return [True] * len(tensors)
        depending = [state.sum() for state in states if state.requires_grad]
        gradients = torch.autograd.grad(depending, tensors, allow_unused=True) if depending else [None] * len(tensors)
        return [gradient is not None for gradient in gradients]
    except Exception:  # whatever a model raises on such an input, it could not be found out
        return [True] * len(tensors)
    finally:
        for tensor in tensors:
            tensor.requires_grad_(False)
        for parameter, before in required.items():
            parameter.requires_grad_(before)


def _short_inputs(network: PreTrainedModel) -> dict[str, Tensor]:
    if takes_images(network) or takes_audio(network):
        given = random_image(network) if takes_images(network) else random_audio(network)
        inputs = {network.main_input_name: given[None].to(network.dtype)}
    else:
        table: Any = network.get_input_embeddings()
        ids = torch.arange(4)[None] % len(table.weight)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if network.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.zeros(1, 2, dtype=torch.long)
    return inputs
