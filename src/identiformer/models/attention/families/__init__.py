"""Families whose attention does not pass through transformers' attention interface.

Most of them multiply the output of a softmax by values: listing the class in `WATCHED` is enough. That A·V is the output with
which such a module continues is checked on the first run of every model. The others have a context manager in `ADAPTERS`, which
makes a module of that class record its attention.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType

from torch import nn

from identiformer.models.attention.families.sparse import full_attention, recorded_windows

ADAPTERS: Mapping[str, Callable[[nn.Module], AbstractContextManager[None]]] = MappingProxyType(
    {
        "big_bird.BigBirdModel": full_attention,
        "bigbird_pegasus.BigBirdPegasusEncoder": full_attention,
        "led.LEDEncoderSelfAttention": recorded_windows,
        "longformer.LongformerSelfAttention": recorded_windows,
    }
)

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
