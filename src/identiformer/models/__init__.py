"""Hugging Face models: load them, run them, record their attention. The only place that imports transformers."""

from identiformer.models.loading import load
from identiformer.models.model import Model
from identiformer.models.watched import watch_attention

__all__ = ["Model", "load", "watch_attention"]
