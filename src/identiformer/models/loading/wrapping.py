"""Models that come wrapped: compiled, with adapters, quantized, with weights elsewhere. Taken as they are, or refused."""

import torch
from torch import nn
from transformers import PreTrainedModel

from identiformer.errors import InputError, UnsupportedModelError

COMPUTED_IN = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Floats that torch multiplies and adds; smaller ones are a way to store weights."""


def unwrapped(model: nn.Module) -> PreTrainedModel:
    """The model that a user's object stands for, where all that it computes can be read from its modules and weights."""
    network: nn.Module = getattr(model, "_orig_mod", model)  # torch.compile leaves the model itself untouched within
    _refuse_adapters(network)
    _refuse_prompts(network)
    if not isinstance(network, PreTrainedModel):
        raise InputError(
            f"expected a Hugging Face model, got {type(network).__name__}; wrap it in ten lines, as docs/models.md shows under "
            "'A model of your own'."
        )
    _refuse_hidden_weights(network)
    return network


def _refuse_adapters(network: nn.Module) -> None:
    if any(hasattr(module, "base_layer") and hasattr(module, "merge") for module in network.modules()):
        raise UnsupportedModelError(
            f"{type(network).__name__} holds adapters of peft, whose maps are not the weights of any one module; merge them: "
            "load(model.merge_and_unload(), tokenizer)."
        )


def _refuse_prompts(network: nn.Module) -> None:
    if hasattr(network, "prompt_encoder") and hasattr(network, "get_base_model"):
        raise UnsupportedModelError(
            f"{type(network).__name__} puts learned vectors of peft before the text, which are no tokens; look at the model "
            "without them: load(model.get_base_model(), tokenizer)."
        )


def _refuse_hidden_weights(network: PreTrainedModel) -> None:
    kind = type(network).__name__
    for name, parameter in network.named_parameters():
        if parameter.device == torch.device("meta"):
            raise UnsupportedModelError(f"{kind} keeps {name} on disk and not in memory; load it without offloading.")
        if parameter.dtype not in COMPUTED_IN:
            raise UnsupportedModelError(
                f"{kind} holds quantized weights ({name} is {str(parameter.dtype).removeprefix('torch.')}), from which its maps "
                "cannot be read; load it dequantized, or dequantize it: load(model.dequantize(), tokenizer)."
            )
