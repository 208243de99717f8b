"""Certified contributions: how much of a head's output each key contributes in every row with the same output."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from identiformer.equations.arrays import same_kind
from identiformer.equations.certificates.feasible_set import FeasibleSet

CATEGORIES = ("free", "noncontributing", "mixed", "readable")


class ContributionBounds(NamedTuple):
    """Certified bounds on contributions."""

    low: Float64[Tensor, "*row key"]
    high: Float64[Tensor, "*row key"]


@same_kind
def contribution_bounds(
    low: Float64[Tensor, "*row key"],
    high: Float64[Tensor, "*row key"],
    per_weight: Float[Tensor, "*row key"],
    relative_length: Float[Tensor, "*row key"],
    tolerance: float,
) -> ContributionBounds:
    """Certified bounds on contributions, from those on weights: over all rows a' of F_ε(a), p'_j = a'_j·⟨t_j, o'⟩/‖o'‖².

    With the same output p'_j = a'_j·g_j. Up to the tolerance ‖o' - o‖ ≤ ε‖o‖, so that ⟨t_j, o'⟩/‖o‖² differs from g_j by at
    most ε‖t_j‖/‖o‖, and ‖o'‖/‖o‖ from 1 by at most ε.

    Parameters
    ----------
    low, high : float64 arrays (… key)
        Certified bounds on the weights.
    per_weight, relative_length : float arrays (… key)
        g_j = ⟨t_j, o⟩/‖o‖² and ‖t_j‖/‖o‖, from `head_contributions`.
    tolerance : float
        ε of the bounds.

    Returns
    -------
    ContributionBounds
        `low` and `high`, each float64 (… key).

    Examples
    --------
    >>> low, high = torch.tensor([0.2, 0.1]).double(), torch.tensor([0.3, 0.4]).double()
    >>> bounds = contribution_bounds(low, high, torch.tensor([1.5, -0.5]), torch.tensor([2.0, 1.0]), tolerance=0.0)
    >>> bounds.low, bounds.high
    (tensor([ 0.3000, -0.2000], dtype=torch.float64), tensor([ 0.4500, -0.0500], dtype=torch.float64))
    """
    per_weight, spread = per_weight.double(), tolerance * relative_length.double()
    least, most = per_weight - spread, per_weight + spread
    smallest = torch.where(least >= 0, low, high) * least
    largest = torch.where(most >= 0, high, low) * most
    return ContributionBounds(_for_any_length(smallest, -tolerance), _for_any_length(largest, tolerance))


def set_contribution_bounds(feasible: FeasibleSet, members: Bool[np.ndarray, " key"]) -> tuple[float, float]:
    """Certified bounds on the summed contribution of some keys, over all rows of F_ε(a): linear programs with costs g.

    They are tighter than the summed bounds of the keys.

    Parameters
    ----------
    feasible : FeasibleSet
        F_ε(a), from `feasible_sets`.
    members : bool array (key)
        The keys of the set.

    Returns
    -------
    tuple of two float
        The lower and the upper bound; NaN where the output is zero.

    Examples
    --------
    >>> from identiformer.equations import feasible_sets
    >>> values = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> _, _, feasible = next(feasible_sets(torch.tensor([[0.5, 0.3, 0.2]]), values, tolerance=0.0))
    >>> [round(end, 4) for end in set_contribution_bounds(feasible, np.array([True, True, False]))]  # 0.8²/(0.8² + 0.2²)
    [0.9412, 0.9412]
    """
    if not feasible.output_norm:
        return float("nan"), float("nan")
    per_weight, spread = feasible.per_weight, feasible.tolerance * feasible.relative_length
    lowest, _ = feasible.bound(np.where(members, spread - per_weight, 0.0))
    highest, _ = feasible.bound(np.where(members, per_weight + spread, 0.0))
    ends = torch.tensor([-lowest, highest], dtype=torch.float64)
    return float(_for_any_length(ends[0], -feasible.tolerance)), float(_for_any_length(ends[1], feasible.tolerance))


def _for_any_length(bound: Float64[Tensor, "*row"], tolerance: float) -> Float64[Tensor, "*row"]:
    """A bound on s/(‖o'‖/‖o‖)² from one on s: upper for a positive tolerance, lower for a negative one."""
    return bound / torch.where(bound >= 0, (1 - tolerance) ** 2, (1 + tolerance) ** 2)


class Cascade(NamedTuple):
    """How much of each weight passes one test after another."""

    certified: Float64[Tensor, "*row key"]
    """Every row with the same output has it."""
    contributing: Float64[Tensor, "*row key"]
    """And it contributes to the output."""
    readable: Float64[Tensor, "*row key"]
    """And what it contributes is attributed to the token itself."""

    def category(self, weights: Float[Tensor, "*row key"]) -> Int64[Tensor, "*row key"]:
        """The largest part of each weight, as an index into CATEGORIES; -1 where a test that decides it is undefined.

        Weight that is not certified is *free*; certified weight that does not contribute is *noncontributing*; contributing
        weight that is attributed to tokens other than the key is *mixed*; what passes all tests is *readable*.
        """
        stages = torch.stack([weights.double(), *self, torch.zeros_like(self.certified)])
        parts = -stages.diff(dim=0)
        most, largest = parts[0].nan_to_num(-1), torch.zeros_like(weights, dtype=torch.int64)
        for index, part in enumerate(parts[1:].nan_to_num(-1), start=1):  # faster than argmax over an outer dimension
            largest = torch.where(part > most, index, largest)
            most = torch.maximum(part, most)
        rest = torch.where(parts[1].isnan(), self.certified, self.contributing)  # of which the parts are unknown
        undecided = parts.isnan().any(0) & (rest > most)
        return torch.where(undecided | self.certified.isnan(), -1, largest)


@same_kind
def cascade(
    weights: Float[Tensor, "*row key"],
    low: Float64[Tensor, "*row key"],
    contribution_low: Float64[Tensor, "*row key"],
    self_contribution: Float[Tensor, "*#row key"],
) -> Cascade:
    """How much of each weight passes three tests: is it certified, does it contribute, is it attributed to the token.

    Of a weight a_j, low_j is certified; min(low_j, p_j⁺) of it contributes, with p_j the certified contribution; and the key's
    self-contribution c_jj of that is attributed to the token itself.

    Parameters
    ----------
    weights : float array (… key)
        A.
    low, contribution_low : float64 arrays (… key)
        Certified lower bounds on weights and on contributions.
    self_contribution : float array (… key)
        c_jj of the vector that each key is made of: the share that Hidden Token Attribution attributes to its own token.

    Returns
    -------
    Cascade
        `certified`, `contributing` and `readable`, each (… key), none larger than the one before; NaN where undefined.

    Examples
    --------
    >>> passed = cascade(*torch.tensor([[0.5, 0.5], [0.4, 0.0], [0.3, 0.0], [0.5, 0.5]]).double())
    >>> [round(float(stage[0]), 3) for stage in passed]
    [0.4, 0.3, 0.15]
    """
    certified = torch.minimum(low.clamp(min=0), weights.double())
    contributing = torch.minimum(certified, contribution_low.clamp(min=0))
    return Cascade(certified, contributing, contributing * self_contribution)
