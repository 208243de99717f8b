"""The equations of "On Identifiability in Transformers", one function each, on tensors or NumPy arrays."""

from identiformer.equations.attention.contributions import contributions, head_contributions, layer_contributions
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
from identiformer.equations.certificates.contributions import cascade, contribution_bounds, set_contribution_bounds
from identiformer.equations.certificates.feasible_set import FeasibleSet
from identiformer.equations.certificates.intervals import certify_argmax, feasible_sets, weight_intervals
from identiformer.equations.certificates.map_bounds import map_bounds

__all__ = [
    "FactoredAttention",
    "FeasibleSet",
    "Visibility",
    "cascade",
    "certify_argmax",
    "contribution_bounds",
    "contributions",
    "effective_attention",
    "factor_outputs",
    "factor_weights",
    "farthest_alternative",
    "feasible_sets",
    "head_contributions",
    "key_constrained",
    "layer_contributions",
    "layer_nullity",
    "left_null_space",
    "leverage",
    "map_bounds",
    "maximum_entropy_attention",
    "minimum_norm_attention",
    "null_alternative",
    "null_attention",
    "null_mass",
    "numerical_rank",
    "projection_root",
    "set_contribution_bounds",
    "singular_values",
    "soft_attention",
    "sparsest_alternative",
    "sum_preserving_attention",
    "weight_intervals",
]
