"""Maps of attention weights: raw attention, with and without special tokens and the residual connection."""

import torch
from torch import Tensor

from identiformer.equations.maps.rows import with_residual, without_keys
from identiformer.measures.maps.kind import MapKind
from identiformer.passage import Passage


def raw_attention(passage: Passage) -> Tensor:
    """The mean of a over heads."""
    return torch.stack([layer.weights.double().mean(0) for layer in passage.layers])


def raw_between_words(passage: Passage) -> Tensor:
    """The mean of a over heads without special tokens as keys, as shares of each row."""
    return without_keys(RAW.scores(passage), torch.tensor(passage.tokens.special))


RAW = MapKind(
    name="raw",
    title="raw attention",
    formula="mean over heads of a_ij",
    paper="Vaswani et al. (2017)",
    cost="1",
    compute=raw_attention,
)
RAW_WORDS = MapKind(
    name="raw_words",
    title="raw attention between words",
    formula="a_ij/Σ_k a_ik of the mean over heads, over keys that are not special tokens; zero if no other key has weight",
    paper="Clark et al. (2019)",
    cost="1",
    compute=raw_between_words,
)
RAW_RESIDUAL = MapKind(
    name="raw_residual",
    title="raw attention with the residual connection",
    formula="½ mean over heads of a_ij + ½ (i = j)",
    paper="Abnar and Zuidema (2020)",
    cost="1",
    compute=lambda passage: with_residual(RAW.scores(passage)),
    has_residual=True,
)
