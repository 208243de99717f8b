"""Measures: from a trace, or a model and a corpus, to a labelled Dataset."""

from identiformer.measures.ambiguity import ambiguity
from identiformer.measures.attention_identifiability import attention_identifiability
from identiformer.measures.attention_variants import attention_variants
from identiformer.measures.attribution_summary import AttributionSummary, summarise_attribution
from identiformer.measures.certificate import Certificate, certify_head
from identiformer.measures.certified_share import certified_share
from identiformer.measures.effective_attention import effective_attention
from identiformer.measures.gradient_times_input import gradient_times_input
from identiformer.measures.identification import identify
from identiformer.measures.inspection import Inspection, certify, inspect_text
from identiformer.measures.learning_curve import learning_curve
from identiformer.measures.token_attribution import token_attribution
from identiformer.measures.token_identifiability import token_identifiability
from identiformer.measures.token_neighbours import token_neighbours
from identiformer.measures.token_steps import token_steps
from identiformer.measures.token_transfer import token_transfer
from identiformer.measures.value_zeroing import value_zeroing

__all__ = [
    "AttributionSummary",
    "Certificate",
    "Inspection",
    "ambiguity",
    "attention_identifiability",
    "attention_variants",
    "certified_share",
    "certify",
    "certify_head",
    "effective_attention",
    "gradient_times_input",
    "identify",
    "inspect_text",
    "learning_curve",
    "summarise_attribution",
    "token_attribution",
    "token_identifiability",
    "token_neighbours",
    "token_steps",
    "token_transfer",
    "value_zeroing",
]
