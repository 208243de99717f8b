"""Families whose attention does not pass through transformers' attention interface.

Most of them multiply the output of a softmax by values: listing the class in `WATCHED` is enough. That A·V is the output with
which such a module continues is checked on the first run of every model. Families with sparse attention have a context manager
in `ADAPTERS`, which makes a module of that class record its attention.

BigBird attends to everything on a short text, and to blocks, some of them random, on a long one. Recording is limited to short
texts, because the heads of a block-sparse layer do not see the same keys.

Longformer and LED's encoder attend within a window and store the weights as a band (batch query head offset). The dense attention
is A[q, q + offset - window]. Tokens with global attention have separate values, so that the output is not A·V: they are rejected.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call, received


@contextmanager
def preserved_blocks(network: Any) -> Iterator[None]:
    """Restore BigBird's block-sparse attention, which transformers replaces for good on the first short text."""
    with ExitStack() as undo:
        for module in network.modules():
            if getattr(module, "attention_type", "") == "block_sparse":
                undo.callback(setattr, module, "attention_type", "block_sparse")
                if hasattr(module, "self"):
                    undo.callback(setattr, module, "self", module.self)
        yield


@contextmanager
def full_attention(network: Any) -> Iterator[None]:
    """Make a BigBird attend to everything, and reject texts that are too long for that."""
    if network.attention_type != "block_sparse":
        yield
        return
    config = network.config
    longest = (5 + 2 * config.num_random_blocks) * config.block_size

    def check_length(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        candidates = (*arguments, named.get("input_ids"), named.get("inputs_embeds"))
        length = next(tensor.shape[1] for tensor in candidates if tensor is not None)
        if length > longest:
            raise UnsupportedModelError(
                f"expected at most {longest} tokens, up to which {type(network).__name__} attends to everything, got {length}; "
                "on longer texts its heads attend to different blocks, which cannot be recorded."
            )

    with preserved_blocks(network), network.register_forward_pre_hook(check_length, with_kwargs=True):
        network.set_attention_type("original_full")
        yield


@contextmanager
def recorded_windows(module: Any) -> Iterator[None]:
    """Make a Longformer module record its attention."""
    multiply = module._sliding_chunks_matmul_attn_probs_value

    def on_product(band: Tensor, values: Tensor, window: int) -> Tensor:
        output = multiply(band, values, window)
        positions = torch.arange(band.shape[1], device=band.device)
        offsets = positions - positions[:, None] + window
        visible = (offsets >= 0) & (offsets <= 2 * window)
        indices = offsets.clamp(0, 2 * window).expand(*band.transpose(1, 2).shape[:2], *offsets.shape)
        weights = band.transpose(1, 2).gather(-1, indices) * visible
        return received(Call(module, values.transpose(1, 2), output, weights, mask=visible[None, None]))

    def on_global(*_: Any, **__: Any) -> Tensor:
        raise UnsupportedModelError(
            f"{type(module).__name__} has separate values for tokens with global attention, so that its output is not one "
            "attention map times one set of values; run it without a global_attention_mask."
        )

    with ExitStack() as undo:
        for name, replacement in (
            ("_sliding_chunks_matmul_attn_probs_value", on_product),
            ("_compute_attn_output_with_global_indices", on_global),
        ):
            undo.callback(delattr, module, name)  # uncovers the method of the class
            setattr(module, name, replacement)
        yield


ADAPTERS: Mapping[str, Callable[[nn.Module], AbstractContextManager[None]]] = {
    "big_bird.BigBirdModel": full_attention,
    "bigbird_pegasus.BigBirdPegasusEncoder": full_attention,
    "led.LEDEncoderSelfAttention": recorded_windows,
    "longformer.LongformerSelfAttention": recorded_windows,
}

READ_PADDING = frozenset({"convbert", "mobilebert"})
"""Families whose convolutions read padding, so that their texts are run one by one."""

CRASH_FORWARD_MODE = frozenset({"switch_transformers"})
"""Families in whose experts torch's forward-mode differentiation ends the process."""

WATCHED = {
    # scores with relative positions
    "bros.BrosSelfAttention",
    "deberta.DisentangledSelfAttention",
    "deberta_v2.DisentangledSelfAttention",
    "funnel.FunnelRelMultiheadAttention",
    "layoutlmv2.LayoutLMv2SelfAttention",
    "layoutlmv3.LayoutLMv3SelfAttention",
    "luke.LukeSelfAttention",
    "mpnet.MPNetSelfAttention",
    "speecht5.SpeechT5Attention",
    "xlnet.XLNetRelativeAttention",
    # scores with a bias that falls with distance
    "bloom.BloomAttention",
    "falcon.FalconAttention",
    "mpt.MptAttention",
    # rotary embeddings
    "codegen.CodeGenAttention",
    "gpt_neox_japanese.GPTNeoXJapaneseAttention",
    "gptj.GPTJAttention",
    "roformer.RoFormerSelfAttention",
    # plain products of queries and keys
    "bark.BarkSelfAttention",
    "big_bird.BigBirdSelfAttention",
    "bigbird_pegasus.BigBirdPegasusSelfAttention",
    "blip.BlipAttention",
    "blip.BlipTextSelfAttention",
    "convbert.ConvBertSelfAttention",
    "data2vec.Data2VecVisionSelfAttention",
    "flaubert.MultiHeadAttention",
    "flava.FlavaSelfAttention",
    "fsmt.Attention",
    "git.GitSelfAttention",
    "gpt_neo.GPTNeoSelfAttention",
    "ibert.IBertSelfAttention",
    "imagegpt.ImageGPTAttention",
    "led.LEDDecoderAttention",
    "lxmert.LxmertAttention",
    "megatron_bert.MegatronBertSelfAttention",
    "mvp.MvpAttention",
    "openai.Attention",
    "prophetnet.ProphetNetAttention",
    "rembert.RemBertSelfAttention",
    "squeezebert.SqueezeBertSelfAttention",
    "tapas.TapasSelfAttention",
    "vilt.ViltSelfAttention",
    "visual_bert.VisualBertSelfAttention",
    "xglm.XGLMAttention",
    "xlm.MultiHeadAttention",
}
