"""Read a model and its tokenizer with transformers, checking the files before and the model after it is built."""

import json
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import IMAGE_PROCESSOR_NAME

import identiformer.nn  # noqa: F401  registers its models
from identiformer.errors import MissingPackageError, ModelError
from identiformer.models.library_output import model_errors, quiet_transformers
from identiformer.models.loading.checkpoint_fit import check_fit, size_limit
from identiformer.models.loading.devices import complete_map
from identiformer.models.loading.gguf_files import gguf_options, quiet_conversion
from identiformer.models.loading.tokenizer_growth import check_growth, steps_of
from identiformer.models.loading.weight_files import check_counts, check_json_sizes, find_gguf, find_weights, optional_file

TASKS: dict[str, Any] = {
    "causal-lm": AutoModelForCausalLM,
    "masked-lm": AutoModelForMaskedLM,
    "classification": AutoModelForSequenceClassification,
    "none": AutoModel,
}
"""The task heads that a model may be loaded with, and transformers' class for each."""
ENDINGS = {
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
    "ForMaskedLM": "masked-lm",
    "ForSequenceClassification": "classification",
}
"""How the name of an architecture ends, and its task."""
BACKENDS = {
    "aqlm": "aqlm",
    "auto-round": "auto-round",
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "eetq": "eetq",
    "fbgemm_fp8": "fbgemm-gpu",
    "gptq": "gptqmodel",
    "higgs": "flute-kernel",
    "hqq": "hqq",
    "quanto": "optimum-quanto",
    "quark": "amd-quark",
    "torchao": "torchao",
    "vptq": "vptq",
}
"""Methods of quantization, as configurations name them, and the packages that run them."""


@dataclass(frozen=True)
class Request:
    """What to load, and how; see `load`."""

    name: str
    dtype: torch.dtype | str
    task: str | None
    device_map: str | dict[str, Any] | None
    allow_pickle: bool
    allow_code: bool


def read_network(source: str, request: Request, **where: Any) -> PreTrainedModel:
    """Read a model from a folder or the hub; `where` is local_files_only, revision, and for GGUF gguf_file.

    By default with the head that is stored with the model, of those in TASKS, or else none.
    """
    name, task = request.name, request.task
    with ExitStack() as undo, model_errors(f"{name} cannot be loaded as a Hugging Face model"), quiet_transformers():
        check_json_sizes(source, name)
        options: dict[str, Any] = {}
        if "gguf_file" in where:
            files = find_gguf(Path(source) / where["gguf_file"], name)
            options |= gguf_options()
        else:
            settings, _ = PreTrainedConfig.get_config_dict(source, **where)
            check_counts(settings, name)
            _check_backend(settings, name)
            files = find_weights(source, name, settings, allow_pickle=request.allow_pickle, **where)
            options["use_safetensors"] = files.safetensors
        config = AutoConfig.from_pretrained(source, trust_remote_code=request.allow_code, **where)
        _check_kernels(config, name)
        stored = stored_task(config, "gguf_file" in where)
        device_map = request.device_map
        if device_map is not None:
            if isinstance(device_map, dict):
                with torch.device("meta"), size_limit(files, name):
                    built = TASKS[task or stored].from_config(config, trust_remote_code=request.allow_code)
                device_map = complete_map(device_map, built)
            # For weights that are converted before they are offloaded, as those of experts.
            folder = tempfile.TemporaryDirectory(prefix="identiformer-", ignore_cleanup_errors=True)
            options |= {"device_map": device_map, "offload_folder": undo.enter_context(folder)}
        # Weights that the files lack, such as a pooler's, are random: seeded, so that all loads of a model agree.
        with torch.random.fork_rng(devices=()), quiet_conversion(), size_limit(files, name) as shapes:
            torch.manual_seed(0)
            network, report = TASKS[task or stored].from_pretrained(
                source,
                config=config,
                dtype=request.dtype,
                trust_remote_code=request.allow_code,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # check_fit reports them
                **where,
                **options,
            )
        weakref.finalize(network, undo.pop_all().close)  # the folder goes with the network
    is_bare = network.base_model is network
    missing = sorted(key for key in report["missing_keys"] if not (is_bare or key.startswith(f"{network.base_model_prefix}.")))
    if missing and task is not None:
        raise ModelError(
            f"expected the weights of a head for {task} in the files of {name}, got none for {missing[0]}; load it with "
            "task='none', or get a model that was trained for this task."
        )
    if missing:  # its configuration names a head that was not stored
        return read_network(source, replace(request, task="none"), **where)
    check_fit(network, report, shapes, files, name)
    return network


def stored_task(config: PreTrainedConfig, gguf: bool = False) -> str:
    """The task of the head that a configuration names; GGUF files name none, and hold language models."""
    if config.is_encoder_decoder:
        return "none"
    architecture = next(iter(config.architectures or ()), "ForCausalLM" if gguf else "")
    task = next((task for ending, task in ENDINGS.items() if architecture.endswith(ending)), "none")
    return task if type(config) in TASKS[task]._model_mapping else "none"


def read_tokenizer(source: str, request: Request, **where: Any) -> Any:
    """Read a tokenizer; reject the default one that transformers builds when the files are missing."""
    name = request.name
    with model_errors(f"{name} cannot be loaded with its tokenizer"), quiet_transformers():
        stored = None if "gguf_file" in where else optional_file(source, "tokenizer.json", **where)
        if stored is not None:  # a tokenizer normalizes its added tokens when it is built
            check_growth(json.loads(stored.read_bytes()), name)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=request.allow_code, **where)
        if tokenizer.vocab_files_names:  # one without reads bytes or characters
            special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
            if not any(token not in special and token.strip("▁Ġ ") for token in tokenizer.get_vocab()):
                raise ModelError(
                    f"expected a tokenizer in the files of {name}, got one without a vocabulary; copy its files "
                    "(tokenizer.json, tokenizer_config.json) there, or pass one: load(model, tokenizer)."
                )
        check_growth(steps_of(tokenizer), name)
    return tokenizer


def read_image_processor(source: str, request: Request, **where: Any) -> Any:
    """Read the image processor of a vision model; None where its files have none, and it takes pixels only."""
    if optional_file(source, IMAGE_PROCESSOR_NAME, **where) is None:
        return None
    with model_errors(f"{request.name} cannot be loaded with its image processor"), quiet_transformers():
        return AutoImageProcessor.from_pretrained(source, trust_remote_code=request.allow_code, **where)


def _check_backend(settings: Mapping[str, Any], name: str) -> None:
    """Reject quantized weights if the package that runs them is not installed."""
    quantization = settings.get("quantization_config")
    if quantization is None:
        return
    if not isinstance(quantization, Mapping):
        raise ModelError(f"expected quantization_config of {name} to be an object, got {quantization!r}; repair config.json.")
    method = quantization.get("quant_method", "")
    package = BACKENDS.get(method)
    if package is not None and not _is_installed(package):
        raise MissingPackageError(
            f"the weights of {name} are quantized by {method}, which needs the package {package}; run: pip install {package}"
        )


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _check_kernels(config: PreTrainedConfig, name: str) -> None:
    """Reject a configuration that requests attention code from the hub."""
    for part in (config, *(getattr(config, key, None) for key in config.sub_configs)):
        kernel = getattr(part, "_attn_implementation", None)
        if isinstance(kernel, str) and "/" in kernel:
            raise ModelError(
                f"the configuration of {name} requests attention code from the hub ({kernel}), which is never run; remove "
                "attn_implementation from its config.json."
            )
