"""The first-order effect of every attention weight on what a model outputs, from gradients at the outputs of heads."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.attention.removal import Removal, knock_out_edges, zero_values

Maps = Float[Tensor, "head query key"]
Values = Float[Tensor, "group key width"]
Effects = Float64[Tensor, "head query key"]


@same_kind
def removed_effects(weights: Maps, values: Values, gradients: Float[Tensor, "head query width"]) -> Effects:
    """The first-order effect of each weight if its value is removed: e_ij = a_ij·⟨v_j, g_i⟩.

    o_i = Σ_j a_ij·v_j is the output of a head before its projection, and g_i = ∂f/∂o_i the gradient of a number f that the
    model outputs. Without the j-th term, f is smaller by e_ij to first order.

    Parameters
    ----------
    weights : float array (head query key)
        A. Rows may be any chosen ones.
    values : float array (group key width)
        V with its bias; consecutive heads share a group.
    gradients : float array (head query width)
        g_i.

    Returns
    -------
    float64 array (head query key)
        Positive where the weight increases f.

    Examples
    --------
    >>> values, gradients = torch.tensor([[[2.0], [-1.0]]]), torch.tensor([[[3.0]]])
    >>> removed_effects(torch.tensor([[[0.5, 0.5]]]), values, gradients)
    tensor([[[ 3.0000, -1.5000]]], dtype=torch.float64)
    """
    return first_order(zero_values(weights, values), gradients)


@same_kind
def renormalized_effects(
    weights: Maps, values: Values, gradients: Float[Tensor, "head query width"], sink: bool = False
) -> Effects:
    """The first-order effect of each weight if the softmax is taken without its key: e_ij = a_ij/(1 - a_ij)·⟨v_j - o_i, g_i⟩.

    Parameters
    ----------
    weights, values, gradients
        As in `removed_effects`.
    sink : bool
        Whether a learned sink takes part in the softmax, so that rows sum to less than 1.

    Returns
    -------
    float64 array (head query key)
        NaN where the weight is all of its row, which then makes no choice.

    Examples
    --------
    >>> values, gradients = torch.tensor([[[2.0], [-1.0]]]), torch.tensor([[[3.0], [3.0]]])
    >>> renormalized_effects(torch.tensor([[[0.5, 0.5], [1.0, 0.0]]]), values, gradients)
    tensor([[[ 4.5000, -4.5000],
             [    nan, -0.0000]]], dtype=torch.float64)
    """
    return first_order(knock_out_edges(weights, values, sink), gradients)


@same_kind
def squared_effects(weights: Maps, values: Values, gradients: Float[Tensor, "draw head query width"]) -> Effects:
    """How far each weight moves everything that a model outputs: K_ij = ½·mean over draws of (a_ij·⟨v_j, g_i⟩)².

    With gradients of random combinations of the logits whose covariance is the Fisher information (`fisher_cotangents`), K_ij
    estimates Σ KL(with the weight ‖ without it) over all positions, to second order: the gradient of KL itself is zero. Its
    relative error is about √(2/draws).

    Parameters
    ----------
    weights, values
        As in `removed_effects`.
    gradients : float array (draw head query width)
        g_i for each draw.

    Returns
    -------
    float64 array (head query key)

    Examples
    --------
    >>> gradients = torch.tensor([[[[3.0]]], [[[-1.0]]]])
    >>> squared_effects(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[2.0], [-1.0]]]), gradients)
    tensor([[[2.5000, 0.6250]]], dtype=torch.float64)
    """
    removal = zero_values(weights, values)
    total = torch.zeros_like(removal.factor)
    for draw in gradients:  # an array of all draws would be as many times larger
        total += first_order(removal, draw).square()
    return total / (2 * len(gradients))


def first_order(removal: Removal, gradients: Float[Tensor, "head query width"]) -> Effects:
    """F - f' of a removal, o_i' = o_i - f_ij·(v_j - u_i), to first order: f_ij·⟨v_j - u_i, g_i⟩."""
    gradients = gradients.double()
    replaced = (removal.replacement * gradients).sum(-1, keepdim=True)
    return removal.factor * (gradients @ removal.values.mT - replaced)
