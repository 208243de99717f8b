"""Maps of the field: how much each token matters to another in each layer, and to the output."""

from identiformer.measures.maps.attention import RAW, RAW_RESIDUAL, RAW_WORDS
from identiformer.measures.maps.baselines import DISTANCE, RANDOM, UNIFORM
from identiformer.measures.maps.contributions import ALTI, CONTRIBUTION
from identiformer.measures.maps.effects import TOKEN_ATTRIBUTION, VALUE_ZEROING
from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.norms import GLOBENC, NORM_HEADS, NORM_LAYER, NORM_LAYERNORM, NORM_RESIDUAL, NORM_VALUES
from identiformer.measures.maps.output.alti_logit import ALTI_LOGIT
from identiformer.measures.maps.output.attnlrp import ATTNLRP
from identiformer.measures.maps.output.composed import COMPOSED, flow_of, rollout_of
from identiformer.measures.maps.output.decompx import DECOMPX
from identiformer.measures.maps.output.gradient_attention import GRADIENT_ATTENTION
from identiformer.measures.maps.output.gradients import GRADIENT_TIMES_INPUT, INTEGRATED_GRADIENTS, TOKEN_ATTRIBUTION_LAST
from identiformer.measures.maps.output.leave_one_out import LEAVE_ONE_OUT
from identiformer.measures.maps.variants import (
    EFFECTIVE,
    EFFECTIVE_SIGNED,
    EFFICIENT,
    MAXIMUM_ENTROPY,
    MINIMUM_NORM,
    SUM_PRESERVING,
)
from identiformer.names import check_map

__all__ = ["MAPS", "MapKind", "find_map"]

LAYERS = (
    *(RAW, RAW_WORDS, RAW_RESIDUAL),
    *(NORM_VALUES, NORM_HEADS, NORM_LAYER, NORM_RESIDUAL, NORM_LAYERNORM, GLOBENC),
    *(EFFECTIVE, EFFECTIVE_SIGNED, SUM_PRESERVING, MINIMUM_NORM, EFFICIENT, MAXIMUM_ENTROPY),
    *(CONTRIBUTION, ALTI, VALUE_ZEROING, TOKEN_ATTRIBUTION),
    *(UNIFORM, RANDOM, DISTANCE),
)
OUTPUT = (
    *map(rollout_of, (RAW, CONTRIBUTION, NORM_LAYERNORM, GLOBENC, ALTI)),
    flow_of(RAW),
    *(TOKEN_ATTRIBUTION_LAST, GRADIENT_TIMES_INPUT, INTEGRATED_GRADIENTS, GRADIENT_ATTENTION),
    *(ATTNLRP, ALTI_LOGIT, DECOMPX),
    LEAVE_ONE_OUT,
)
ALL = (*LAYERS, *OUTPUT)
MAPS: dict[str, MapKind] = {kind.name: kind for kind in ALL}


def find_map(name: str) -> MapKind:
    """The map of this name; rollout:NAME and flow:NAME combine the layers of any map."""
    if name in MAPS:
        return MAPS[name]
    prefix, _, base = check_map(name).partition(":")
    return COMPOSED[prefix](MAPS[base])
