"""Hugging Face models: load them, run them, record their attention. The only place that imports transformers."""

from identiformer.models.attention.custom_modules import watch_attention
from identiformer.models.loading.load import load
from identiformer.models.model import Model

__all__ = ["Model", "load", "watch_attention"]
