"""Read adapters of peft from a folder onto the model that they were trained for."""

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.peft_utils import ADAPTER_CONFIG_NAME, ADAPTER_SAFE_WEIGHTS_NAME

from identiformer.errors import MissingPackageError, ModelError
from identiformer.models.library_output import model_errors, quiet_transformers
from identiformer.models.loading.adapter_settings import changes_base, check_patterns, check_scaling

TASKS = {"CAUSAL_LM": "causal-lm", "SEQ_CLS": "classification", "FEATURE_EXTRACTION": "none"}
"""What peft calls the tasks that a model may be loaded for."""


def base_of(config: Path, name: str) -> tuple[str, str | None]:
    """The name of the model that adapters belong to, and the task that they were trained for, if it is one that is known."""
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
        base, task = settings["base_model_name_or_path"], settings.get("task_type")
    except (ValueError, LookupError, AttributeError, TypeError):
        base = task = None
    if not isinstance(base, str) or not base:
        raise ModelError(
            f"expected the name of a model in the {ADAPTER_CONFIG_NAME} of {name}, got none; load the model, put the adapters on "
            "it with peft.PeftModel.from_pretrained, and pass it: load(model, tokenizer)."
        )
    return base, TASKS.get(task) if isinstance(task, str) else None


def adapted(network: PreTrainedModel, config: Path, name: str, base: str) -> Any:
    """A model with the adapters next to their configuration, which must have the names and shapes that fit its modules."""
    try:
        import peft
    except ImportError:
        raise MissingPackageError(f"{name} holds adapters, which need the package peft; run: pip install peft") from None
    weights = config.parent / ADAPTER_SAFE_WEIGHTS_NAME
    if not weights.is_file():
        raise ModelError(f"expected the adapters of {name} in {ADAPTER_SAFE_WEIGHTS_NAME}; save them as safetensors.")
    with model_errors(f"the adapters in {name} do not fit {base}"), quiet_transformers():
        check_patterns(json.loads(config.read_text(encoding="utf-8")), network, name)
        settings: Any = peft.PeftConfig.from_pretrained(str(config.parent))
        settings.inference_mode = True
        stored = load_file(weights)
        changes = changes_base(settings, network, name, base)
        # On the meta device, so that a configuration cannot take more memory than its files.
        plain, skeleton = settings, network
        if changes:
            plain = copy.deepcopy(settings)
            plain.init_lora_weights = False
            with torch.device("meta"):
                skeleton = type(network)(network.config)
        model = peft.PeftModel(skeleton, plain, low_cpu_mem_usage=True)
        expected, embeddings = (peft.get_peft_model_state_dict(model, save_embedding_layers=them) for them in (False, True))
        expected |= {key: embeddings[key] for key in embeddings.keys() & stored.keys()}
        for key in sorted(expected.keys() | stored.keys()):
            built, read = (_kind(tensors[key]) if key in tensors else "nothing" for tensors in (expected, stored))
            if built != read:
                where = key.removeprefix("base_model.model.")
                raise ModelError(
                    f"expected adapters of {base} in {name}, but at {where} they hold {read} and the model expects {built}; get "
                    "those that were trained for it."
                )
        stored = {key: tensor.to(expected[key].dtype) for key, tensor in stored.items()}
        if changes:
            model = peft.PeftModel(network, settings)
            settings.init_lora_weights = False  # done: a copy in another process gets the weights
        else:  # allocated in the precision of the base, as which the first assignment rounds them
            peft.set_peft_model_state_dict(model, stored, low_cpu_mem_usage=True)
            tuner: Any = model.base_model
            if hasattr(tuner, "_cast_adapter_dtype"):
                tuner._cast_adapter_dtype("default", autocast_adapter_dtype=True)
        peft.set_peft_model_state_dict(model, stored)
        # peft puts adapters where the weights of their module are, which may be offloaded.
        lost = {name: name.replace(".default.", ".") for name, tensor in model.named_parameters() if tensor.is_meta}
        numbers = {name: stored[key] for name, key in lost.items() if key in stored}
        model.load_state_dict(numbers, strict=False, assign=True)
    check_scaling(model, name)
    return model.eval()


def _kind(tensor: Tensor) -> str:
    """The shape of a tensor, and its type unless it holds real numbers."""
    kind = "" if tensor.is_floating_point() else f" of {str(tensor.dtype).removeprefix('torch.')}"
    return f"{tuple(tensor.shape)}{kind}"
