"""Every input that a model could have had at a place: each word piece's embedding, with what the place adds to it."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from identiformer.errors import UnsupportedModelError
from identiformer.models.hidden_states.store import HiddenStates
from identiformer.models.model import Model

TOLERANCE = 1e-4  # of the largest input: sums of three embeddings in float32 differ by less


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Word embeddings, and for each token what its place adds to its own."""

    words: Tensor
    """(piece width)"""
    offsets: Tensor
    """(place width)"""
    place: Tensor
    """(token): which of the offsets a token has."""
    ids: Tensor
    """(token): its word piece."""


def vocabulary_of(model: Model, states: HiddenStates) -> Vocabulary:
    """The word embeddings, with x = word + offset of the place for every token of a corpus; refused where that does not hold."""
    words = model.backbone.get_input_embeddings().weight.detach().float().cpu()
    ids = torch.from_numpy(states.ids)
    inputs = torch.from_numpy(np.array(states.inputs))
    places = np.stack([states.position, states.segments])
    _, first, place = np.unique(places, axis=1, return_index=True, return_inverse=True)
    if words.shape[1] == inputs.shape[1]:
        added = inputs - words[ids]
        found = Vocabulary(words, added[torch.from_numpy(first)], torch.from_numpy(place.reshape(-1)), ids)
        if float((added - found.offsets[found.place]).abs().max()) <= TOLERANCE * float(inputs.abs().max()):
            return found
    raise UnsupportedModelError(
        f"the inputs of {model.name} are not its word embeddings with something added for the place, so there is no vocabulary "
        "to look in; leave vocabulary=True (--vocabulary) out."
    )
