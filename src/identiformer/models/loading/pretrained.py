"""Read a model and its tokenizer with transformers, checking the files before and the model after it is built."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, GgufConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils.hub import cached_file
from transformers.utils.peft_utils import ADAPTER_CONFIG_NAME

from identiformer.errors import ModelError, UnsupportedModelError
from identiformer.models.library_output import model_errors, quiet_transformers
from identiformer.models.loading.checkpoint_fit import check_fit, size_limit
from identiformer.models.loading.weight_files import check_counts, check_json_sizes, find_gguf, find_weights


def read_network(
    source: str, name: str, dtype: torch.dtype, *, allow_pickle: bool, allow_code: bool, **where: Any
) -> PreTrainedModel:
    """Read a model without its task head from a folder or the hub; `where` is local_files_only, and for GGUF gguf_file."""
    offline = where["local_files_only"]
    with model_errors(f"{name} cannot be loaded as a Hugging Face model"), quiet_transformers():
        check_json_sizes(source, name)
        _check_adapters(source, name, offline)
        if "gguf_file" in where:
            files = find_gguf(Path(source) / where["gguf_file"], name)
            # Quantized weights would be multiplied by code from the hub, and the model's maps could not be read from them.
            options: dict[str, Any] = {"quantization_config": GgufConfig(dequantize=True)}
        else:
            settings, _ = PreTrainedConfig.get_config_dict(source, local_files_only=offline)
            check_counts(settings, name)
            files = find_weights(source, name, settings, local_files_only=offline, allow_pickle=allow_pickle)
            options = {"use_safetensors": files.safetensors}
        config = AutoConfig.from_pretrained(source, trust_remote_code=allow_code, **where)
        _check_kernels(config, name)
        # Weights that the files lack, such as a pooler's, are random: seeded, so that all loads of a model agree.
        with torch.random.fork_rng(devices=()), size_limit(files, name) as shapes:
            torch.manual_seed(0)
            network, report = AutoModel.from_pretrained(
                source,
                config=config,
                dtype=dtype,
                trust_remote_code=allow_code,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # check_fit reports them
                **where,
                **options,
            )
    check_fit(network, report, shapes, name)
    return network


def read_tokenizer(source: str, name: str, *, allow_code: bool, **where: Any) -> Any:
    """Read a tokenizer; reject the default one that transformers builds when the files are missing."""
    with model_errors(f"{name} cannot be loaded with its tokenizer"), quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=allow_code, **where)
        if tokenizer.vocab_files_names:  # one without reads bytes or characters
            special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
            if not any(token not in special and token.strip("▁Ġ ") for token in tokenizer.get_vocab()):
                raise ModelError(
                    f"expected a tokenizer in the files of {name}, got one without a vocabulary; copy its files "
                    "(tokenizer.json, tokenizer_config.json) there, or pass one: load(model, tokenizer)."
                )
    return tokenizer


def _check_adapters(source: str, name: str, offline: bool) -> None:
    """Reject adapters, which transformers would add to the model, or to another one that they name."""
    config = cached_file(
        source,
        ADAPTER_CONFIG_NAME,
        local_files_only=offline,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
    )
    if config is not None:
        raise UnsupportedModelError(
            f"{name} holds adapters of peft ({ADAPTER_CONFIG_NAME}), whose maps are not the weights of any one module; merge "
            "them into their model: model.merge_and_unload(), then load(model, tokenizer)."
        )


def _check_kernels(config: PreTrainedConfig, name: str) -> None:
    """Reject a configuration that requests attention code from the hub."""
    for part in (config, *(getattr(config, key, None) for key in config.sub_configs)):
        kernel = getattr(part, "_attn_implementation", None)
        if isinstance(kernel, str) and "/" in kernel:
            raise ModelError(
                f"the configuration of {name} requests attention code from the hub ({kernel}), which is never run; remove "
                "attn_implementation from its config.json."
            )
