"""Measures: from a trace to a labelled Dataset."""

from identiformer.measures.ambiguity import ambiguity
from identiformer.measures.attention_identifiability import attention_identifiability
from identiformer.measures.attention_variants import attention_variants
from identiformer.measures.effective_attention import effective_attention
from identiformer.measures.inspection import Inspection, inspect_text

__all__ = ["Inspection", "ambiguity", "attention_identifiability", "attention_variants", "effective_attention", "inspect_text"]
