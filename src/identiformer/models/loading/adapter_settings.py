"""Reject settings of adapters with which the trained model cannot be built again, and patterns that match for hours."""

import json
import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from identiformer.errors import ModelError, ModelWarning

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
