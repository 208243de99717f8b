"""The equations of "On Identifiability in Transformers", one function each, on tensors or NumPy arrays."""

from identiformer.equations.attention.effective import effective_attention, null_attention
from identiformer.equations.attention.factored import FactoredAttention, factor_outputs, factor_weights
from identiformer.equations.attention.heads import projection_root
from identiformer.equations.attention.identifiability import key_constrained, layer_nullity
from identiformer.equations.attention.rank import left_null_space, numerical_rank, singular_values
from identiformer.equations.attention.summaries import leverage, null_mass
from identiformer.equations.attention.variants import (
    maximum_entropy_attention,
    minimum_norm_attention,
    soft_attention,
    sum_preserving_attention,
)
from identiformer.equations.attention.visibility import Visibility
from identiformer.equations.certificates.alternatives import (
    farthest_alternative,
    null_alternative,
    sparsest_alternative,
)
from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.intervals import certify_argmax, feasible_sets, weight_intervals

__all__ = [
    "FactoredAttention",
    "FeasibleSet",
    "Visibility",
    "certify_argmax",
    "effective_attention",
    "factor_outputs",
    "factor_weights",
    "farthest_alternative",
    "feasible_sets",
    "key_constrained",
    "layer_nullity",
    "left_null_space",
    "leverage",
    "maximum_entropy_attention",
    "minimum_norm_attention",
    "null_alternative",
    "null_attention",
    "null_mass",
    "numerical_rank",
    "projection_root",
    "singular_values",
    "soft_attention",
    "sparsest_alternative",
    "sum_preserving_attention",
    "weight_intervals",
]
