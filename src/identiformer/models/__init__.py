"""Hugging Face models: load them, run them, record their attention. The only place that imports transformers."""

from identiformer.models.loading import load
from identiformer.models.model import Model
from identiformer.models.training import Recipe, Trained, check_trainable, train_classifier

__all__ = ["Model", "Recipe", "Trained", "check_trainable", "load", "train_classifier"]
