"""Maps of the field: how much each token matters to another in each layer, and to the output."""

from identiformer import names
from identiformer.measures.maps.attention import MAPS_OF_ATTENTION
from identiformer.measures.maps.effects import EFFECTS
from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.norms import WHAT_KEYS_WRITE
from identiformer.measures.maps.output.composed import COMPOSED
from identiformer.measures.maps.output.decomposition import ALTI_LOGIT, DECOMPX
from identiformer.measures.maps.output.gradients import BY_GRADIENTS

__all__ = ["MAPS", "MapKind", "find_map"]

SINGLE = {kind.name: kind for kind in (*MAPS_OF_ATTENTION, *WHAT_KEYS_WRITE, *EFFECTS, *BY_GRADIENTS, ALTI_LOGIT, DECOMPX)}
"""The maps that do not combine those of layers."""


def _composed(name: str) -> MapKind:
    prefix, _, base = name.partition(":")
    return COMPOSED[prefix](SINGLE[base])


MAPS = {name: SINGLE[name] if name in SINGLE else _composed(name) for name in names.MAPS}


def find_map(name: str) -> MapKind:
    """The map of this name; rollout:NAME and flow:NAME combine the layers of any map."""
    return MAPS[name] if name in MAPS else _composed(names.check_map(name))
