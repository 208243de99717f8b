"""The equations of "On Identifiability in Transformers", one function each: tensors or NumPy in, the same out."""

from identiformer.equations.alternatives import (
    farthest_alternative,
    null_alternative,
    sparsest_alternative,
    total_variation,
    total_variation_bound,
)
from identiformer.equations.ambiguity import feasible_sets, weight_intervals
from identiformer.equations.argmax import certify_argmax
from identiformer.equations.attention_variants import (
    maximum_entropy_attention,
    minimum_norm_attention,
    soft_attention,
    sum_preserving_attention,
)
from identiformer.equations.effective_attention import effective_attention, null_attention
from identiformer.equations.factored_attention import FactoredAttention, factor_outputs, factor_weights
from identiformer.equations.feasible_set import FeasibleSet
from identiformer.equations.key_constrained import key_constrained
from identiformer.equations.layer_nullity import layer_nullity
from identiformer.equations.leverage import leverage
from identiformer.equations.output_projection import full_row_rank, projection_root
from identiformer.equations.rank import left_null_space, numerical_rank, singular_values
from identiformer.equations.summaries import attention_squared_norms, correlation, null_mass
from identiformer.equations.visibility import Visibility

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
