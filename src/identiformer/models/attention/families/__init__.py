"""Families whose attention does not pass through transformers' attention interface.

Most of them multiply what a softmax gives with values, whatever their scores hold: they need no code, only to be named in
`WATCHED`. That A·V is what such a module goes on with is checked on the first run of every model. The others have a file
each, named in `ADAPTERS`: a context in which a module of that class hands over what it attends.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType

from torch import nn

from identiformer.models.attention.call import Handover
from identiformer.models.attention.families.big_bird import full_on_short_texts
from identiformer.models.attention.families.longformer import banded

ADAPTERS: Mapping[str, Callable[[nn.Module, Handover], AbstractContextManager[None]]] = MappingProxyType(
    {
        "big_bird.BigBirdModel": full_on_short_texts,
        "bigbird_pegasus.BigBirdPegasusEncoder": full_on_short_texts,
        "led.LEDEncoderSelfAttention": banded,
        "longformer.LongformerSelfAttention": banded,
    }
)

READ_PADDING = frozenset({"convbert", "mobilebert"})
"""Families whose convolutions, or words put together with the next, reach into padding: their texts are run one by one."""

CRASH_FORWARD_MODE = frozenset({"switch_transformers"})
"""Families in whose experts torch's forward differentiation ends the process."""

WATCHED = {
    # scores hold relative positions; the output is A·V all the same
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
    # scores hold a bias that falls with distance
    "bloom.BloomAttention",
    "falcon.FalconAttention",
    "mpt.MptAttention",
    # keys and queries are turned by their position
    "codegen.CodeGenAttention",
    "gpt_neox_japanese.GPTNeoXJapaneseAttention",
    "gptj.GPTJAttention",
    "roformer.RoFormerSelfAttention",
    # products of queries and keys
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
