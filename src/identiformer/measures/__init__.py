"""Measures: from a trace to a labelled Dataset."""

from identiformer.measures.ambiguity import ambiguity
from identiformer.measures.attention_identifiability import attention_identifiability
from identiformer.measures.attention_variants import attention_variants
from identiformer.measures.attribution_summary import AttributionSummary, summarise_attribution
from identiformer.measures.certificate import Certificate, certify_head
from identiformer.measures.effective_attention import effective_attention
from identiformer.measures.gradient_times_input import gradient_times_input
from identiformer.measures.inspection import Inspection, certify, inspect_text
from identiformer.measures.token_attribution import token_attribution

__all__ = [
    "AttributionSummary",
    "Certificate",
    "Inspection",
    "ambiguity",
    "attention_identifiability",
    "attention_variants",
    "certify",
    "certify_head",
    "effective_attention",
    "gradient_times_input",
    "inspect_text",
    "summarise_attribution",
    "token_attribution",
]
