"""Measures: from a trace to a labelled Dataset."""

from identiformer.measures.attention_variants import attention_variants
from identiformer.measures.effective_attention import effective_attention
from identiformer.measures.inspection import Inspection, inspect_text

__all__ = ["Inspection", "attention_variants", "effective_attention", "inspect_text"]
