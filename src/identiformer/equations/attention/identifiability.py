"""Whether the output of a whole layer determines its attention, and whether that of a head does given its keys."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import moderate_size, same_kind, times_power_of_two
from identiformer.equations.attention.effective import Visible, read_visibility
from identiformer.equations.attention.heads import per_head
from identiformer.equations.attention.rank import above_noise, numerical_rank, precision_of
from identiformer.errors import InputError


@same_kind
def layer_nullity(
    values: Float[Tensor, "group key width"],
    projection: Float[Tensor, "head value_width model"],
    visible: Visible = None,
    *,
    queries: int = 1,
    precision: torch.dtype | None = None,
) -> Int64[Tensor, " query"]:
    """The number of directions of all heads' weights together that leave the layer's output Σ_h a_h·V_h·H_h unchanged.

    It is hn - rank of the stacked V_hH_h: at least the sum of the heads' own nullities, and more where the heads' widths add
    up to more than the model's, because heads can then compensate for one another.

    Parameters
    ----------
    values : float array (group key width)
        V with its bias, before grouped-query repetition.
    projection : float array (head width model)
        H, each head's slice of the output projection.
    visible : Visibility or bool array (query key), optional
        The keys that each query sees; all by default.
    queries : int
        The number of rows where there is no mask.
    precision : torch.dtype, optional
        The dtype in which V was computed, if it was converted since (from float32, V itself shows it).

    Returns
    -------
    int64 array (query)

    Examples
    --------
    >>> layer_nullity(torch.eye(3)[None], torch.eye(3).repeat(2, 1, 1))  # each head alone is identifiable
    tensor([3])
    """
    groups, keys, width = values.shape
    heads = len(projection)
    if heads % groups or projection.shape[1] != width:
        raise InputError(
            "expected values (group key width) and projections (head width model) of one width, and a number of "
            f"heads that is a multiple of the number of groups, got {tuple(values.shape)} and {tuple(projection.shape)}."
        )
    mask_queries = queries if visible is None else visible.shape[0] if isinstance(visible, Tensor) else visible.queries
    visibility = read_visibility(visible, mask_queries, keys).to(values.device)
    # One power of two for all heads: they are compared with one another.
    moderate, slices = (moderate_size(each.flatten(0, 1))[0].view_as(each).double() for each in (values, projection))
    transmitted = per_head(moderate, heads) @ slices
    nullity = torch.empty(mask_queries, dtype=torch.int64, device=values.device)
    for rows, visible_keys in visibility.patterns():
        stacked = transmitted[:, visible_keys].flatten(0, 1)
        nullity[rows] = len(stacked) - numerical_rank(stacked, precision or precision_of(values))
    return nullity


class KeyConstrained(NamedTuple):
    """How far each row of a head determines the query that generated it."""

    smallest: Float64[Tensor, " query"]
    """The smallest singular value of ∂o/∂q over the directions of q that change attention at all."""
    condition: Float64[Tensor, " query"]
    """Largest over smallest singular value: how much rounding grows when q is recovered from o; NaN without such directions."""
    dimension: Int64[Tensor, " query"]
    """The number of directions of q that change attention."""
    identifiable: Bool[Tensor, " query"]


@same_kind
def key_constrained(
    weights: Float[Tensor, "query key"], keys: Float[Tensor, "key key_width"], values: Float[Tensor, "key width"], scaling: float
) -> KeyConstrained:
    """Whether each row is locally the only one with its output that these keys can generate: rank ∂o/∂q = rank ∂a/∂q.

    A softmax over q·k_j reaches only a d_k-dimensional set of rows, however long the text (Bhardwaj et al., 2021). The paper
    does not restrict attention to that set. ∂a/∂q = (diag a - aa^T)·K·scaling and ∂o/∂q = V^T·∂a/∂q; distant queries may
    still give the same output.

    Parameters
    ----------
    weights : float array (query key)
        Attention of one head.
    keys, values : float arrays (key width)
        K, after position embedding, and V.
    scaling : float
        The factor on query-key products before the softmax.

    Returns
    -------
    KeyConstrained
        `smallest`, `condition`, `dimension` and `identifiable`, each over query.

    Examples
    --------
    >>> key_constrained(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.0], [1.0]]), torch.eye(2), 1.0).identifiable
    tensor([True])
    """
    a = weights.double()
    (k, key_exponent), (v, value_exponent) = moderate_size(keys.double()), moderate_size(values.double())
    moved = a[..., None] * (k - (a @ k)[:, None]) * scaling
    left, sigma, _ = torch.linalg.svd(moved, full_matrices=False)
    dimension = above_noise(sigma, weights.shape[1], keys.shape[1], weights.dtype).sum(-1)
    kept = torch.arange(sigma.shape[-1], device=sigma.device) < dimension[:, None]
    output = torch.einsum("kw,qkr->qwr", v, left * (sigma * kept)[:, None])
    spectrum = torch.linalg.svdvals(output)
    rank = above_noise(spectrum, values.shape[1], keys.shape[1], weights.dtype).sum(-1)
    padded = torch.nn.functional.pad(spectrum, (0, max(int(dimension.max()) - spectrum.shape[-1], 0)))
    smallest = padded.gather(-1, (dimension - 1).clamp(min=0)[:, None])[:, 0] * (dimension > 0)
    condition = spectrum[:, 0] / smallest
    return KeyConstrained(times_power_of_two(smallest, key_exponent + value_exponent), condition, dimension, rank == dimension)
