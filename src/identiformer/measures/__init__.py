"""Measures: from a trace, or a model and a corpus, to a labeled Dataset."""

from identiformer.measures.attention.ambiguity import ambiguity, certified_share
from identiformer.measures.attention.effective import effective_attention
from identiformer.measures.attention.identifiability import attention_identifiability
from identiformer.measures.attention.reading import attention_reading
from identiformer.measures.attention.sinks import sink_effects
from identiformer.measures.attention.variants import attention_variants
from identiformer.measures.attribution.gradient_times_input import gradient_times_input
from identiformer.measures.attribution.hidden_token import token_attribution
from identiformer.measures.attribution.value_zeroing import value_zeroing
from identiformer.measures.identifiability.folder import identify
from identiformer.measures.identifiability.tokens import token_identifiability
from identiformer.measures.identifiability.transfer import token_transfer
from identiformer.measures.identifiability.variations import learning_curve, token_neighbors, token_steps

__all__ = [
    "ambiguity",
    "attention_identifiability",
    "attention_reading",
    "attention_variants",
    "certified_share",
    "effective_attention",
    "gradient_times_input",
    "identify",
    "learning_curve",
    "sink_effects",
    "token_attribution",
    "token_identifiability",
    "token_neighbors",
    "token_steps",
    "token_transfer",
    "value_zeroing",
]
