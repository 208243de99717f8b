"""Token identifiability: is the nearest input of the same example the token itself? §4."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.errors import InputError

Metric = Literal["cosine", "l2"]

TIE = 8  # candidates within this many roundings of each other are tied
CHUNK = 2**24  # bytes of padded vectors at a time, which fit in the cache
VOCABULARY_CHUNK = 2**26  # bytes of similarities with a whole vocabulary at a time


class Recovered(NamedTuple):
    """Whether the nearest neighbor of each prediction is its target."""

    strict: Bool[Tensor, " query"]
    """The target itself is nearest, without a tie."""
    lenient: Bool[Tensor, " query"]
    """All nearest candidates are the same word piece as the target."""
    tied: Bool[Tensor, " query"]
    """Several candidates are equally near: never a strict hit."""


@same_kind
def recover_tokens(
    predicted: Float[Tensor, "query predicted_width"],
    candidates: Float[Tensor, "token width"],
    target: Int64[Tensor, " target"],
    starts: Int64[Tensor, " boundary"],
    metric: Metric,
    ids: Int64[Tensor, " token"] | None = None,
) -> Recovered:
    """Whether the nearest input of the same example, ĉ(e_i) = NN(ĝ(e_i)), is the target token. §4.

    Example k has the candidates from starts[k] up to starts[k + 1]; `target` is each prediction's candidate, which determines
    its example; predictions are in the order of their examples. `ids` are the candidates' word pieces; without them all
    differ.

    >>> x = torch.eye(3)
    >>> recover_tokens(x[[0, 2, 2]], x, torch.arange(3), torch.tensor([0, 3]), "cosine").strict
    tensor([ True, False,  True])
    """
    check_recovery(predicted, candidates, target, starts)
    ids = torch.arange(len(candidates), device=target.device) if ids is None else ids
    example = torch.searchsorted(starts, target, right=True) - 1
    answer = Recovered(*(torch.zeros(len(predicted), dtype=torch.bool, device=predicted.device) for _ in range(3)))
    row_bytes = predicted.shape[1] * predicted.element_size()
    for queries, tokens in _padded(example, starts, row_bytes):
        real_query, real_token = queries >= 0, tokens >= 0
        p, c = predicted[queries.clamp(min=0)], candidates[tokens.clamp(min=0)]
        if metric == "cosine":
            p, c = unit(p), unit(c)
        nearness = p @ c.mT
        scale = torch.ones(())
        if metric == "l2":  # |p - c|² = |p|² - 2(p·c - |c|²/2)
            square = c.square().sum(-1) / 2
            nearness -= square[:, None]
            longest = square.amax(-1)[:, None, None]
            scale = longest + p.norm(dim=-1, keepdim=True) * (2 * longest).sqrt()
        nearness.masked_fill_(~real_token[:, None], -torch.inf)
        near = nearness >= nearness.amax(-1, keepdim=True) - TIE * torch.finfo(p.dtype).eps * scale
        sought = target[queries.clamp(min=0)]
        hit = (near & (tokens[:, None] == sought[..., None])).any(-1)
        tied = near.sum(-1) > 1
        other_piece = (near & (ids[tokens.clamp(min=0)][:, None] != ids[sought][..., None])).any(-1)
        for recovered, flags in zip(answer, (hit & ~tied, near.any(-1) & ~other_piece, tied), strict=True):
            recovered[queries[real_query]] = flags[real_query]
    return answer


def check_recovery(predicted: Tensor, candidates: Tensor, target: Tensor, starts: Tensor) -> None:
    """Raise where predictions, candidates and examples do not fit each other."""
    if predicted.shape[1] != candidates.shape[1]:
        raise InputError(
            f"expected predictions as wide as the inputs ({candidates.shape[1]}), got {predicted.shape[1]}; a model whose "
            "embeddings are narrower than its layers has no naive map."
        )
    if len(target) != len(predicted) or bool((target < 0).any()) or bool((target >= len(candidates)).any()):
        raise InputError(f"expected {len(predicted)} targets, one per prediction, from 0 to {len(candidates) - 1}, got others.")
    if int(starts[0]) != 0 or int(starts[-1]) != len(candidates) or bool((starts.diff() < 1).any()):
        raise InputError(f"expected examples that begin at 0, rise, and end at {len(candidates)}, got {starts.tolist()[:8]}.")
    examples = torch.searchsorted(starts, target, right=True)
    if bool((examples.diff() < 0).any()):
        raise InputError("expected predictions in the order of their examples; sort them first.")


def unit(vectors: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
    """Rows scaled to length one; rows of zeros are unchanged."""
    return torch.nn.functional.normalize(vectors, dim=-1, eps=torch.finfo(vectors.dtype).tiny)


def _padded(example: Tensor, starts: Tensor, row_bytes: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of examples of similar length: indices of their queries and of their candidates, padded with -1."""
    present, counts = torch.unique_consecutive(example, return_counts=True)
    first = counts.cumsum(0) - counts
    lengths = starts.diff()[present]
    order = lengths.argsort(descending=True, stable=True)
    while len(order):
        chunk = order[: max(1, CHUNK // (row_bytes * int(lengths[order[0]])))]
        order = order[len(chunk) :]
        yield _ranges(first[chunk], counts[chunk]), _ranges(starts[present[chunk]], lengths[chunk])


def _ranges(first: Tensor, counts: Tensor) -> Tensor:
    offsets = torch.arange(int(counts.max()), device=counts.device)
    return torch.where(offsets < counts[:, None], first[:, None] + offsets, -1)


@same_kind
def recover_from_vocabulary(
    predicted: Float[Tensor, "query width"],
    table: Float[Tensor, "piece width"],
    offsets: Float[Tensor, "offset width"],
    offset_index: Int64[Tensor, " query"],
    ids: Int64[Tensor, " query"],
    metric: Metric,
) -> Bool[Tensor, " query"]:
    """Whether the nearest input over the whole vocabulary, at the same position, is the token's own. §4.

    `table` holds the word embeddings, `offsets` the sums of position and segment embeddings, and `offset_index` that of each
    prediction. Candidates are table + offset, so that the position alone does not identify the word.
    """
    half_square = table.square().sum(-1) / 2
    # 1 / |E_v + r|, once per offset
    lengths = 2 * (half_square + offsets @ table.mT) + offsets.square().sum(-1, keepdim=True)
    inverse = lengths.clamp(min=torch.finfo(table.dtype).tiny).rsqrt()
    hits = torch.zeros(len(predicted), dtype=torch.bool, device=predicted.device)
    step = max(1, VOCABULARY_CHUNK // (len(table) * table.element_size()))
    for rows in torch.arange(len(predicted), device=predicted.device).split(step):
        p, r = predicted[rows], offsets[offset_index[rows]]
        if metric == "cosine":
            nearness = torch.addmm((p * r).sum(-1, keepdim=True), p, table.mT).mul_(inverse[offset_index[rows]])
            scale = p.norm(dim=-1, keepdim=True)
        else:
            nearness = torch.addmm(half_square, p - r, table.mT, beta=-1)
            longest = half_square.max()
            scale = longest + (p - r).norm(dim=-1, keepdim=True) * (2 * longest).sqrt()
        best = nearness.amax(-1, keepdim=True)
        near = nearness >= best - TIE * torch.finfo(p.dtype).eps * scale
        hits[rows] = near.gather(1, ids[rows, None])[:, 0] & (near.sum(-1) == 1)
    return hits
