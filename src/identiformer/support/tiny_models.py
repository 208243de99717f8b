"""Tiny random models of any architecture: its default configuration with small sizes, or only with few layers."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from identiformer.errors import UnsupportedModelError
from identiformer.models.library_output import quiet_transformers
from identiformer.nn import IdentifiableConfig

VOCABULARY = 100
WORDS = 90
LARGEST = 200_000_000
"""Number of weights above which a model whose sizes could not be reduced is not built."""
NOISE = 0.1
"""Scale of noise added to every weight: initial weights leave attention nearly uniform, and biases zero."""

LAYERS = re.compile(r"(num_|n_)?((en|de)coder_)?(num_)?(hidden_)?layers?|depth|(en|de)coder_depth|num_blocks")
SIZES: tuple[tuple[str, int], ...] = (
    (r".*vocab_size(_per_layer_input)?|(in|out)put_vocab_size", VOCABULARY),
    (r"(original_)?max_(source_|target_)?position(s|_embeddings)|n_positions|max_seq_len|n_ctx|seq_length|max_length", 64),
    (r"(linear_)?num_key_heads|num_(key_value|kv)_heads|n_kv_heads?|linear_num_key_heads|swa_num_key_value_heads", 2),
    (r".*(num|n|attention)_(attention_|value_|query_)?heads?|mamba_n_heads|num_attention_heads|n_head|encoder_heads", 4),
    (r"d_kv|d_head|kv_channels|dim_head|(?!mamba_|qk_head).*head_dim|attention_head_size", 8),
    (r"mamba_(d_head|head_dim|headdim)|qk_head_dim", 16),
    (r"rotary_dim", 4),
    (r"image_size", 32),
    (r"patch_size", 8),
    (r"context_size", 16),
    (r"(q|kv|o)_lora_rank|.*lora_rank.*|.*low_rank.*", 8),
    (r".*(d_state|state_size|ssm_state_size)", 8),
    (r"mamba_n_groups|n_groups|num_groups", 2),
    (r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts|num_zero_experts", 4),
    (r"num_experts_per_(tok|token)|moe_top_?k|top_k_experts|moe_k|num_selected_experts", 2),
    (r"n_group|topk_group|num_expert_group", 1),
    (r"sliding_window|local_attention|attention_chunk_size|attention_window", 4),
    (
        r"(?!.*(image|patch|window|kernel|chunk|block|vocab|batch|tile|grid|stride|crop|frame)).*"
        r"(hidden|embed|embedding|embd|emb|model|proj|ffn|ff|intermediate|inner|mlp|width|dim|rank|channels)"
        r"(_?(size|dim|s|d))?",
        32,
    ),
)
PYRAMIDS = ("depths", "num_heads", "num_attention_heads", "hidden_sizes", "embed_dims")
"""If one of these is a list, widths and heads depend on the stage and are not reduced."""
DERIVED = ("out_features", "out_indices", "stage_names", "per_layer_config", "num_labels", "id2label", "label2id")
"""Settings that a configuration derives from its other settings."""
MISSING = {"head_dim": 8, "num_key_value_heads": 4, "num_experts_per_tok": 2, "vocab_size": VOCABULARY}
"""Settings that models need and some default configurations leave unset."""
ROTATED = {"rope_type": "default", "rope_theta": 10000.0}
FEW_FILTERS = {"num_filters": 2}
SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "chameleon": {"vocabulary_map": {"<image>": 99}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROTATED}},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse"]}},
    "diffusion_gemma": {"text_config": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32}},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "emu3": {"vocabulary_map": {"<image>": 99}},
    "ernie4_5_vl_moe": {"text_config": {"rope_parameters": ROTATED | {"mrope_section": [1, 1, 2]}}},
    "esm": {"pad_token_id": 1, "mask_token_id": 32},
    "esmc": {"num_key_value_heads": 4, "vocab_size": VOCABULARY},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_d_head": 16},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8}},
    "glm4v_moe_text": {"head_dim": 16},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "funnel": {"block_sizes": [2], "block_repeats": [1]},  # several blocks pool positions, which is unsupported
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 96},
    "longformer": {"attention_window": 8},
    "mamba2": {"head_dim": 16},
    "markuplm": {"tag_pad_id": 31, "subs_pad_id": 31},
    "mistral4": {"head_dim": 16},
    "mobilebert": {"intra_bottleneck_size": 32},
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0]}},
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_spark": {"audio_config": {"out_hidden_size": 32}},
    "perceiver": {"num_latents": 8, "d_latents": 32, "num_self_attends_per_block": 2},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 5},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 5},
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 8]},
    "sapiens2": {"num_key_value_heads_per_layer": [*[4] * 8, 2]},
    "step3p7": {"text_config": {"sliding_window": 4}},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "vibevoice_acoustic_tokenizer": FEW_FILTERS,
    "vibevoice_acoustic_tokenizer_encoder": FEW_FILTERS,
    "vits": {"vocab_size": VOCABULARY},
    "zamba": {
        "num_hidden_layers": 5,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid"],
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
    },
    "zamba2": {"attention_hidden_size": 64, "attention_head_dim": 16, "mamba_headdim": 8},
}


def architectures() -> list[str]:
    """List every architecture that the installed transformers can build a model of, and that of `identiformer.nn`."""
    return sorted([IdentifiableConfig.model_type, *(name for name in MODEL_MAPPING_NAMES if name in CONFIG_MAPPING)])


class TooLargeError(UnsupportedModelError):
    """A model stays large however its configuration is reduced."""


def tiny_config(architecture: str, narrow: bool = True) -> PreTrainedConfig:
    """Return the default configuration of an architecture with every size reduced, in nested configurations too.

    narrow: False reduces only the number of layers, for families whose sizes depend on each other.
    """
    kind = CONFIG_MAPPING[architecture]
    config = kind.from_dict(_shrunk(kind().to_dict(), narrow))
    config.architectures = config.architectures or []
    return config


def _with(settings: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Replace some settings, those of nested configurations one by one."""
    parts = {name: value for name, value in others.items() if isinstance(value, Mapping) and settings.get(name)}
    return {**settings, **others, **{name: _with(settings[name], value) for name, value in parts.items()}}


def _shrunk(settings: Mapping[str, Any], narrow: bool) -> dict[str, Any]:
    special = SPECIAL.get(settings.get("model_type", ""), {})
    layers = {value for name, value in settings.items() if LAYERS.fullmatch(str(name)) and isinstance(value, int)}
    if narrow or layers:
        settings = {name: value for name, value in settings.items() if name not in DERIVED}
    if narrow and any(isinstance(settings.get(name), (list, tuple)) for name in PYRAMIDS):
        return _with(settings, special)
    kept = max((_typical_layers(value) for value in settings.values() if _is_per_layer(value, layers)), default=2)
    small = {name: _small(str(name), value, layers, kept, narrow) for name, value in settings.items()}
    if "num_key_value_heads" in small and settings["num_key_value_heads"] == settings.get("num_attention_heads"):
        small["num_key_value_heads"] = small["num_attention_heads"]  # not every family can group its heads
    return _with(small, special)


def _is_per_layer(value: Any, layers: set[int]) -> bool:
    return isinstance(value, (list, tuple)) and len(value) in layers and len(value) > 2


def _typical_layers(types: Any) -> int:
    """Count the first layers that include every layer type; a list without repetitions does not list types."""
    texts = [str(kind) for kind in types]
    return 2 if len(set(texts)) == len(texts) else max(2, 1 + max(texts.index(kind) for kind in set(texts)))


def _small(name: str, value: Any, layers: set[int], kept: int, narrow: bool) -> Any:
    if name == "rope_parameters" and isinstance(value, Mapping):
        return {**value, "mrope_section": [2, 1, 1]} if narrow and "default" in value.values() else dict(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return _shrunk(value, narrow)
    if _is_per_layer(value, layers):
        return value[:kept]
    count: Any = value if isinstance(value, int) and not isinstance(value, bool) else None
    if count is not None and LAYERS.fullmatch(name):
        return min(count, kept)
    if not narrow:
        return value
    if name in ("conv_dim", "image_size") and isinstance(value, (list, tuple)):
        return [32] * len(value)
    if value is None:
        return MISSING.get(name)
    if count is None:
        return value
    if re.fullmatch(r".*token_(id|index)", name):
        return min(count, VOCABULARY - 1)
    return next((min(count, size) for pattern, size in SIZES if re.fullmatch(pattern, name)), value)


def error_of_default(architecture: str) -> Exception | None:
    """Return the error of building an architecture's default configuration without weights; None if it works."""
    try:
        with quiet_transformers(), torch.device("meta"):
            AutoModel.from_config(CONFIG_MAPPING[architecture]())
    except Exception as error:
        return error
    return None


def tiny_model(architecture: str, seed: int = 1, narrow: bool = True) -> PreTrainedModel:
    """Build a model of that configuration with random weights, the same for the same seed."""
    config = tiny_config(architecture, narrow)
    with quiet_transformers(), torch.random.fork_rng(devices=()):
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in AutoModel.from_config(config).parameters())
        if size > LARGEST:
            raise TooLargeError(f"even its smallest configuration has {size / 1e6:.0f} million weights.")
        torch.manual_seed(seed)
        model = AutoModel.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter.add_(torch.randn_like(parameter), alpha=NOISE)
    if hasattr(model, "set_default_language"):
        model.set_default_language(model.config.languages[0])
    return model.eval()


def tiny_words(count: int, start: int = 0) -> str:
    """Return this many words of the tiny tokenizer's vocabulary."""
    return " ".join(f"w{(start + 7 * number) % WORDS}" for number in range(count))


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of ninety words that puts [CLS] before and [SEP] after a text."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate([*special, *(f"w{number}" for number in range(WORDS))])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    pieces = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B [SEP]"}
    tokenizer.post_processor = TemplateProcessing(**pieces, special_tokens=[("[CLS]", 2), ("[SEP]", 3)])  # pyright: ignore
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
