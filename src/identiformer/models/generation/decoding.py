"""How a language model chooses tokens: by its logits alone, or also by the settings that it was published with."""

import json
from collections.abc import Mapping
from typing import Any

from transformers import GenerationConfig

from identiformer.errors import InputError

STOPS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Settings that hold in any case: which tokens end an answer."""
WITHOUT_EFFECT = {
    "max_length", "max_new_tokens", "do_sample", "temperature", "num_return_sequences", "early_stopping", "length_penalty",
    "decoder_start_token_id", "use_cache", "cache_implementation", "cache_config", "max_cache_len", "low_memory",
    "prefill_chunk_size", "compile_config", "disable_compile", "continuous_batching_config", "return_dict_in_generate",
    "output_scores", "output_logits", "output_attentions", "output_hidden_states", "transformers_version", "_from_model_config",
}  # fmt: skip
"""Settings that an argument replaces, that need several beams, or that change how tokens are computed and not which."""
SAMPLING = {"top_k", "top_p", "top_h", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"}
"""Settings that leave the most probable token as it is."""
NEUTRAL = {
    "num_beams": 1, "num_beam_groups": 1, "top_k": 0, "top_p": 1, "typical_p": 1, "epsilon_cutoff": 0, "eta_cutoff": 0,
    "repetition_penalty": 1, "encoder_repetition_penalty": 1, "guidance_scale": 1, "diversity_penalty": 0, "min_length": 0,
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0,
}  # fmt: skip
"""Values with which a setting has no effect."""


def decoding(
    network: Any, source: str | None, max_new_tokens: int, temperature: float, seed: int
) -> tuple[GenerationConfig, dict[str, Any]]:
    """The configuration with which transformers generates, and every setting that decides which tokens it writes."""
    known = vars(GenerationConfig()).keys() - WITHOUT_EFFECT if source == "model" else STOPS
    own = {name: value for name, value in network.generation_config.to_dict().items() if name in known and value is not None}
    sampling = temperature > 0
    chosen = {"max_new_tokens": max_new_tokens, "do_sample": sampling} | ({"temperature": temperature} if sampling else {})
    config = GenerationConfig(**{"top_k": 0, **own, **chosen})  # without top_k, transformers would sample from 50 tokens
    acting = {
        name: value
        for name, value in json.loads(config.to_json_string()).items()
        if name in own and name not in STOPS and value not in (False, NEUTRAL.get(name)) and (sampling or name not in SAMPLING)
    }
    # Token healing replaces the end of the prompt, which is then not what the answer records.
    if config.get_generation_mode() not in ("greedy_search", "sample") or "token_healing" in acting:
        raise InputError(
            "expected a generation_config of the model that writes one token after the other, got "
            f"{_listed(acting)}; leave generation_config out."
        )
    return config, {"temperature": temperature, **({"seed": seed} if sampling else {}), **acting}


def decoding_sentence(settings: Mapping[str, Any]) -> str:
    """How the tokens were chosen."""
    acting = {name: value for name, value in settings.items() if name not in ("temperature", "seed")}
    sampled = "seed" in settings
    chosen = (
        f"sampled at temperature {settings['temperature']:g} with seed {settings['seed']}" if sampled else "the most probable one"
    )
    return f"Each was {chosen}{f', under the generation_config of the model ({_listed(acting)})' if acting else ''}."


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in settings.items())
