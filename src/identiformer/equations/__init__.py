"""The equations of "On Identifiability in Transformers", one function each: tensors or NumPy in, the same out."""

from identiformer.equations.attention.effective import effective_attention, null_attention
from identiformer.equations.attention.factored import FactoredAttention, factor_outputs, factor_weights
from identiformer.equations.attention.key_constrained import key_constrained
from identiformer.equations.attention.layer_nullity import layer_nullity
from identiformer.equations.attention.leverage import leverage
from identiformer.equations.attention.output_projection import full_row_rank, projection_root
from identiformer.equations.attention.rank import left_null_space, numerical_rank, singular_values
from identiformer.equations.attention.summaries import attention_squared_norms, correlation, null_mass
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
    total_variation,
    total_variation_bound,
)
from identiformer.equations.certificates.argmax import certify_argmax
from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.intervals import feasible_sets, weight_intervals

__all__ = [
    "FactoredAttention",
    "FeasibleSet",
    "Visibility",
    "attention_squared_norms",
    "certify_argmax",
    "correlation",
    "effective_attention",
    "factor_outputs",
    "factor_weights",
    "farthest_alternative",
    "feasible_sets",
    "full_row_rank",
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
    "total_variation",
    "total_variation_bound",
    "weight_intervals",
]
