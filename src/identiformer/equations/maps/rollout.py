"""From maps of single layers to the whole model: rollout, flow, relevance by gradients, and what attention adds to a logit."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

UNIT = 2**30
"""Capacity of a share of 1. SciPy takes 32-bit integers, so each capacity is rounded by up to 1/UNIT."""


def layer_mixing(
    scores: Float[Tensor, "layer position source"], *, add_residual: bool = True
) -> Float64[Tensor, "layer position source"]:
    """How a layer mixes its positions: Ã = ½|S| + ½I, with |S| normalized to rows of 1.

    Without `add_residual`, for maps that have the residual connection already, Ã = |S|. A row of zeros keeps its position.

    >>> layer_mixing(torch.tensor([[[3.0, -1.0], [0.0, 0.0]]]))
    tensor([[[0.8750, 0.1250],
             [0.0000, 1.0000]]], dtype=torch.float64)
    """
    sizes = scores.double().abs()
    total = sizes.sum(-1, keepdim=True)
    identity = torch.eye(sizes.shape[-1], dtype=torch.float64, device=sizes.device)
    shares = torch.where(total > 0, sizes / total.where(total > 0, 1.0), identity)
    return (shares + identity) / 2 if add_residual else shares


def attention_rollout(mixing: Float64[Tensor, "layer position source"]) -> Float64[Tensor, "position source"]:
    """Ã_L ⋯ Ã_2 Ã_1: the share of each input token in each position after the last layer. Abnar and Zuidema (2020), Eq. 1.

    >>> attention_rollout(torch.tensor([[[0.5, 0.5], [0.0, 1.0]]] * 2, dtype=torch.float64))
    tensor([[0.2500, 0.7500],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    rolled = mixing[0]
    for layer in mixing[1:]:
        rolled = layer @ rolled
    return rolled


def attention_flow(mixing: Float64[Tensor, "layer position source"], positions: tuple[int, ...]) -> Float64[Tensor, " source"]:
    """The maximum flow from the output to each input token, normalized to a sum of 1. Abnar and Zuidema (2020), §3.

    Positions of all layers are the nodes of a graph, and Ã_l are the capacities of its edges. The output is one more node with
    edges of equal capacity to `positions`: for one position it is that position itself.

    >>> attention_flow(torch.tensor([[[0.5, 0.5], [0.0, 1.0]]] * 2, dtype=torch.float64), (0,))
    tensor([0.3333, 0.6667], dtype=torch.float64)
    """
    layers, length, _ = mixing.shape
    # Node p of layer l is l·length + p, with the input as layer 0; the last node is the output.
    shares = mixing.numpy(force=True)
    layer, start, end = np.nonzero(shares > 0)
    output = (layers + 1) * length
    heads = np.concatenate([(layer + 1) * length + start, np.full(len(positions), output)])
    tails = np.concatenate([layer * length + end, layers * length + np.array(positions)])
    shares = np.concatenate([shares[layer, start, end], np.full(len(positions), 1 / len(positions))])
    capacities = np.rint(shares * UNIT).astype(np.int32)
    graph = coo_array((capacities, (heads, tails)), shape=(output + 1, output + 1)).tocsr()
    flows = [maximum_flow(graph, output, source).flow_value for source in range(length)]
    return mixing.new_tensor(flows) / sum(flows)


def gradient_attention(
    weights: Float[Tensor, "layer head position source"], gradients: Float[Tensor, "layer head position source"]
) -> Float64[Tensor, "position source"]:
    """R_L - I, with R_0 = I and R_l = R_{l-1} + mean over heads of (∇A_l ⊙ A_l)⁺ · R_{l-1}. Chefer et al. (2021b), Eqs. 5 and 6.

    ∇A are the gradients of the explained number. I, with which every position starts, is left out of the result.

    >>> weights = torch.full((1, 1, 2, 2), 0.5)
    >>> gradient_attention(weights, torch.tensor([[[[1.0, -1.0], [2.0, 4.0]]]]))
    tensor([[0.5000, 0.0000],
            [1.0000, 2.0000]], dtype=torch.float64)
    """
    identity = torch.eye(weights.shape[-1], dtype=torch.float64, device=weights.device)
    relevance = identity
    for layer in (weights.double() * gradients.double()).clamp(min=0).mean(1):
        relevance = relevance + layer @ relevance
    return relevance - identity


def logit_updates(
    weights: Float[Tensor, "head key"], transformed: Float[Tensor, "head key model"], readout: Float[Tensor, " model"]
) -> Float64[Tensor, " key"]:
    """Δ_j = Σ_h a_j·⟨v_jH, u⟩: what each key adds to the logit through the attention of one layer, at one position.

    u is the read-out of the logit from the residual stream, with the final norm as a linear map. §3.2, Eq. 9.

    >>> logit_updates(torch.tensor([[0.5, 0.5]]), torch.tensor([[[2.0, 1.0], [0.0, 4.0]]]), torch.tensor([1.0, -1.0]))
    tensor([ 0.5000, -2.0000], dtype=torch.float64)
    """
    return (weights.double() * (transformed.double() @ readout.double())).sum(0)


def traced_updates(
    updates: Float64[Tensor, "layer key"], contributions: Float[Tensor, "layer position source"]
) -> Float64[Tensor, " source"]:
    """Σ_l Δ^l M^(l-1), with M^l = C^l ⋯ C^1 the contributions of tokens to the vectors after layer l, and M^0 = I. §3.3, Eq. 13.

    C are the rows of ALTI: they sum to 1, so that the result sums to all updates. A row without scores keeps its position.

    >>> updates = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> traced_updates(updates, torch.tensor([[[1.0, 0.0], [0.5, 0.5]]] * 2))
    tensor([2., 1.], dtype=torch.float64)
    """
    rolled = torch.eye(updates.shape[-1], dtype=torch.float64, device=updates.device)
    traced = torch.zeros_like(updates[0])
    for update, mixing in zip(updates, layer_mixing(contributions, add_residual=False), strict=True):
        traced = traced + update @ rolled
        rolled = mixing @ rolled
    return traced
