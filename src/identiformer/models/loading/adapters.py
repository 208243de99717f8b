"""Read adapters of peft from a folder onto the model that they were trained for.

Rejected are settings with which the trained model cannot be built again, and patterns that match for hours.
"""

import copy
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.peft_utils import ADAPTER_CONFIG_NAME, ADAPTER_SAFE_WEIGHTS_NAME

from identiformer.errors import MissingPackageError, ModelError, ModelWarning
from identiformer.models.library_output import model_errors, quiet_transformers

TASKS = {"CAUSAL_LM": "causal-lm", "SEQ_CLS": "classification", "FEATURE_EXTRACTION": "none"}
"""What peft calls the tasks that a model may be loaded for."""
LEAVE_THE_BASE = (True, False, "gaussian", "eva", "orthogonal", "mica")
"""Initializations of LoRA after which the base model has the weights of its files."""
CHANGE_THE_BASE = ("pissa", "olora")
"""Initializations that move a part of each weight into the adapters, which peft computes again from the files of the base."""
SAMPLED = "monteclora_config"
LARGEST_USUAL_SCALING = 100

SECONDS = 5
REPEATING = frozenset("*+?{|")
"""A pattern without any of these matches in one way or none."""
MATCHER = r"""
import json, re, sys
patterns, names = json.load(sys.stdin)
for pattern in patterns:
    for written in (pattern, rf"(.*\.)?({pattern})$", rf"(^|.*\.){pattern}($|\..*)"):
        try:
            compiled = re.compile(written)
        except Exception:
            continue
        for name in names:
            compiled.match(name), compiled.fullmatch(name)
"""
"""What peft does with a pattern. Only a process can be stopped while it matches."""


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


def changes_base(settings: Any, network: nn.Module, name: str, base: str) -> bool:
    """Whether the base model has other weights under these adapters than in its files; raises if those are unknown."""
    start = getattr(settings, "init_lora_weights", False)
    start = start.lower() if isinstance(start, str) else start
    if start not in (*LEAVE_THE_BASE, *CHANGE_THE_BASE) or getattr(settings, SAMPLED, None):
        what = f"trained on weights that {start!r} changed" if start not in LEAVE_THE_BASE else "sampled at each run"
        raise ModelError(
            f"expected adapters of the weights in {base}, but those in {name} were {what}, which cannot be repeated; where they "
            "were trained, save the merged model (merge_and_unload().save_pretrained), or convert them (save_pretrained with "
            "path_initial_model_for_weight_conversion)."
        )
    changes = start in CHANGE_THE_BASE or getattr(settings, "kasa_config", None) is not None
    if changes and any(weight.is_meta or weight.dtype == torch.float64 for weight in network.parameters()):
        raise ModelError(
            f"the adapters in {name} contain a part of the weights of {base}, which must be in memory and in at most 32 bits for "
            "that; load them without device_map and with dtype='float32'."
        )
    return changes


def check_scaling(model: nn.Module, name: str) -> None:
    """Reject adapters whose output is multiplied by NaN, infinity, zero or a negative number; report a large factor."""
    for path, module in model.named_modules():
        where = path.removeprefix("base_model.model.")
        by_adapter = {key: value for key, value in vars(module).items() if key.endswith("scaling") and isinstance(value, dict)}
        for key, factor in ((key, factor) for key, factors in by_adapter.items() for factor in factors.values()):
            if not 0 < factor < math.inf:
                raise ModelError(
                    f"expected adapters in {name} that are scaled by a positive number, got {factor} at {where}; repair alpha "
                    "and r in adapter_config.json."
                )
            if factor > LARGEST_USUAL_SCALING and key == "scaling":
                warnings.warn(
                    f"the adapters in {name} are scaled by {factor:g} at {where}, which is unusual; check alpha and r in "
                    "adapter_config.json.",
                    ModelWarning,
                    stacklevel=2,
                )
                return


def check_patterns(settings: Any, network: nn.Module, name: str) -> None:
    """Reject regular expressions that take too long on the names of a model's modules."""
    patterns = sorted({text for text in _texts(settings) if REPEATING & set(text)})
    if not patterns:
        return
    work = json.dumps([patterns, [path for path, _ in network.named_modules()]])
    try:
        command = [sys.executable, "-I", "-S", "-c", MATCHER]
        subprocess.run(command, input=work.encode(), capture_output=True, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"expected patterns in the adapter_config.json of {name} that match the names of all modules within {SECONDS} "
            f"seconds, got {', '.join(patterns)[:80]}; list the modules by name."
        ) from None


def _texts(value: Any) -> Iterator[str]:
    """All texts in parsed JSON, those of keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value:
            yield from _texts(part)
        if isinstance(value, dict):
            yield from _texts(list(value.values()))
