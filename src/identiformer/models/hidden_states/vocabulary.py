"""Every input vector that a model could have had at a position: each word embedding plus the offset of the position."""

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
    """Word embeddings, and the offset that position and segment add to that of each token."""

    words: Tensor
    """(piece width)"""
    offsets: Tensor
    """(offset width)"""
    place: Tensor
    """(token): the index of its offset."""
    ids: Tensor
    """(token): its word piece."""


def vocabulary_of(model: Model, states: HiddenStates) -> Vocabulary:
    """Split every x of a corpus into word embedding + offset of position and segment, or raise where that is not possible."""
    words = model.backbone.get_input_embeddings().weight.detach().float().cpu()
    ids = torch.from_numpy(states.ids)
    inputs = torch.from_numpy(np.array(states.inputs))
    places = np.stack([states.position, states.segments])
    _, first, place = np.unique(places, axis=1, return_index=True, return_inverse=True)
    if words.shape[1] == inputs.shape[1]:
        added = inputs - words[ids]
        vocabulary = Vocabulary(words, added[torch.from_numpy(first)], torch.from_numpy(place.reshape(-1)), ids)
        if float((added - vocabulary.offsets[vocabulary.place]).abs().max()) <= TOLERANCE * float(inputs.abs().max()):
            return vocabulary
    raise UnsupportedModelError(
        f"the inputs of {model.name} are not its word embeddings plus an offset per position, so its vocabulary cannot be "
        "searched; leave vocabulary=True (--vocabulary) out."
    )
