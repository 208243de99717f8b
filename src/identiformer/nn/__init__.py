"""Layers one can train: attention whose weights a head's output determines, and a classifier built from it.

Importing this package registers the classifier with transformers, so that `AutoModel` and `load` read its folders.
"""

from identiformer.nn.attention import IdentifiableSelfAttention
from identiformer.nn.encoder import IdentifiableConfig, IdentifiableForSequenceClassification, IdentifiableModel

__all__ = ["IdentifiableConfig", "IdentifiableForSequenceClassification", "IdentifiableModel", "IdentifiableSelfAttention"]
