"""Hugging Face models: load them, run them, record their attention. The only place that imports transformers."""

from identiformer.models.loading import load
from identiformer.models.model import Model

__all__ = ["Model", "load"]
