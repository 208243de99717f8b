"""Tiny random models of many families, and a tokenizer for them all."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

WORDS = [f"w{number}" for number in range(90)]
SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
LLAMA = {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}


def check_value_bias(model: Any, site: Any, text: str) -> None:
    """Check that setting the bias of the value map to zero changes the values by the recorded bias."""
    before = model.trace(text).layer(1)
    assert before.value_bias is not None, "the value map was not found"
    if site.value_map.bias is None:
        assert not before.value_bias.any()
        return
    with torch.no_grad():
        site.value_map.bias.zero_()
    without = model.trace(text).layer(1)
    torch.testing.assert_close(before.values - before.value_bias[:, None], without.values, atol=1e-5, rtol=1e-5)


SERVED: dict[str, dict[str, Any]] = {
    "bert": SMALL,
    "roberta": {**SMALL, "pad_token_id": 1},
    "albert": {**SMALL, "embedding_size": 16},
    "distilbert": {"vocab_size": 100, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64},
    "electra": {**SMALL, "embedding_size": 16},
    "modernbert": {**SMALL, "pad_token_id": 0, "local_attention": 8, "global_attn_every_n_layers": 2},
    "gpt2": {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neox": {**SMALL, "rotary_pct": 0.5},
    "opt": {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "llama": LLAMA,
    "mistral": {**LLAMA, "sliding_window": 4},
    "qwen3": LLAMA,
    "gemma2": {**LLAMA, "sliding_window": 4, "query_pre_attn_scalar": 8},
    "gemma3_text": {**LLAMA, "sliding_window": 4, "query_pre_attn_scalar": 8},
    "phi3": {**LLAMA, "original_max_position_embeddings": 64},
    "gpt_oss": {**LLAMA, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4},
    "deepseek_v3": {
        **SMALL,
        "num_key_value_heads": 4,
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 4,
        "v_head_dim": 6,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
        "pad_token_id": 0,
    },
}

ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "t5": {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "pad_token_id": 0},
    "bart": {
        "vocab_size": 100,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 64,
    },
}

GPT = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}

OUTSIDE_THE_INTERFACE: dict[str, dict[str, Any]] = {
    "big_bird": {**SMALL, "block_size": 4, "num_random_blocks": 1},
    "bloom": {"vocab_size": 100, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "codegen": {**GPT, "rotary_dim": 4},
    "convbert": {**SMALL, "embedding_size": 16, "head_ratio": 2},
    "deberta": {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    "falcon": {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "flaubert": {"vocab_size": 100, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "pad_index": 0, "max_position_embeddings": 64},
    "gpt_neo": {
        "vocab_size": 100,
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
        "max_position_embeddings": 64,
    },
    "gptj": {**GPT, "rotary_dim": 4},
    "ibert": SMALL,
    "longformer": {**SMALL, "attention_window": [8, 8], "max_position_embeddings": 80},
    "megatron-bert": SMALL,
    "mpnet": SMALL,
    "mpt": {"vocab_size": 100, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    "openai-gpt": GPT,
    "rembert": {**SMALL, "input_embedding_size": 16, "output_embedding_size": 16},
    "roformer": SMALL,
    "xglm": {"vocab_size": 100, "d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4, "pad_token_id": 0},
    "xlm": {"vocab_size": 100, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "pad_index": 0, "max_position_embeddings": 64},
    "xlnet": {"vocab_size": 100, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
}

LIKE_OTHERS = {
    **dict.fromkeys(("roberta", "distilbert", "electra", "megatron-bert", "mpnet", "rembert"), "bert"),
    **dict.fromkeys(("qwen3", "phi3"), "llama"),
    **dict.fromkeys(("gpt_neo", "openai-gpt"), "gpt2"),
    "bart": "t5",
    "codegen": "gptj",
    "flaubert": "xlm",
    "mpt": "bloom",
    "xglm": "opt",
}
"""Families that most code treats as it treats another one."""

UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "nystromformer": ({**SMALL, "num_landmarks": 64, "segment_means_seq_len": 64}, "NystromformerSelfAttention"),
    "funnel": ({"vocab_size": 100, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48}, "positions"),
    "granite_swa": (LLAMA, "GraniteSWAAttention returns"),
    "mamba": ({"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, "has none"),
    "fnet": (SMALL, "has none"),
}


def each(families: Iterable[str], like_others: Collection[str] = LIKE_OTHERS) -> list[Any]:
    """Families as parameters of a test, which only slow tests run for those that are like others."""
    return [pytest.param(family, marks=pytest.mark.slow) if family in like_others else family for family in families]


def build(family: str, settings: dict[str, Any]) -> Any:
    torch.manual_seed(1)
    config = AutoConfig.for_model(family, **settings)
    config.architectures = config.architectures or []  # Funnel has two models, and transformers looks here to choose
    transformers.logging.set_verbosity_error()
    return AutoModel.from_config(config).eval()


def word_tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def words(count: int, start: int = 0) -> str:
    return " ".join(WORDS[(start + 7 * number) % len(WORDS)] for number in range(count))
