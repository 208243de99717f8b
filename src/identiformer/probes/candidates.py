"""Candidate linear maps of a closed-form fit: ridge regressions that differ in what they shrink toward, and by how much."""

import math
from itertools import product

import torch
from torch import Tensor

from identiformer.equations.identifiability.linear_maps import Moments, RidgePath, orthogonal_map, without_shared
from identiformer.equations.identifiability.recovery import Metric, unit

WEAK, STRONG = (1e-6, 1e-4, 1e-2), (1e-1, 1.0, 10.0)
"""λ in units of the mean eigenvalue. A weak one leads to the same map whatever it shrinks toward."""
BLEND_SHARES = (0.5, 0.25, 0.75)
BLOCK = 2048  # rows whose copies fit in the cache
DIMENSIONS_PER_SHARED = 100
"""All vectors of a layer share some directions, about one per hundred dimensions (Mu and Viswanath, ICLR 2018)."""


class Family:
    """The orthogonal map, the identity, and ridge regressions toward multiples of both, fitted to one training set."""

    def __init__(
        self,
        training: Moments,
        metric: Metric,
        identity: bool = False,
        shared: Tensor | None = None,
        path: RidgePath | None = None,
    ) -> None:
        """Fit to moments; `path` is a ridge path of the same hidden vectors if one exists."""
        self.path = path.onto(training.cross) if path else RidgePath(training)
        self.shared = shared
        maps = [self.path.basis.mT @ orthogonal_map(training.cross)]
        if identity:
            maps.append(self.path.basis.mT)
        members = [(number, math.inf) for number in range(len(maps))]
        for number in range(len(maps)):
            members += product([len(maps) + number], (STRONG if number else WEAK + STRONG))
            if metric == "l2":  # the distance depends on the scale
                members.append((len(maps) + number, math.inf))
        self._toward = maps + [self.path.scaled(weights) for weights in maps]
        self._members = members

    def __len__(self) -> int:
        return len(self._members)

    def rotate(self, hidden: Tensor) -> Tensor:
        """Hidden vectors in the eigenbasis, in which `coordinates` apply."""
        if self.shared is not None:
            hidden = hidden - (hidden @ self.shared) @ self.shared.mT
        return hidden @ self.path.basis.to(hidden.dtype)

    def coordinates(self, member: int) -> Tensor:
        """One map of the family, for rotated hidden vectors."""
        toward, shrinkage = self._members[member]
        return self.path.coordinates(shrinkage, self._toward[toward])

    def weights(self, member: int) -> Tensor:
        """One map of the family, for hidden vectors as they are."""
        weights = self.path.basis @ self.coordinates(member)
        if self.shared is not None:
            shared = self.shared.double()
            weights -= shared @ (shared.mT @ weights)
        return weights


class Blend:
    """Weighted sums of two maps whose predictions are about equally long: what one of them misses the other may find."""

    def __init__(self, first: Tensor, second: Tensor, path: RidgePath) -> None:
        self._first, self._second = path.normalized(first), path.normalized(second)

    def __len__(self) -> int:
        return len(BLEND_SHARES)

    def rotate(self, hidden: Tensor) -> Tensor:
        """Hidden vectors as they are."""
        return hidden

    def coordinates(self, member: int) -> Tensor:
        """One of the sums."""
        return BLEND_SHARES[member] * self._first + (1 - BLEND_SHARES[member]) * self._second

    weights = coordinates


def direction_families(hidden: Tensor, inputs: Tensor, path: RidgePath) -> list[Family]:
    """Families for the cosine, which ignores lengths and so admits maps that a regression onto unit vectors misses.

    Hidden vectors lose the directions that all of them share and are normalized again: otherwise these dominate tokens that
    differ by little, such as [CLS] and [SEP]. The second family also removes the mean of the inputs.
    """
    shared = path.leading(-(-hidden.shape[1] // DIMENSIONS_PER_SHARED)).to(hidden.dtype)
    mean = inputs.mean(0)
    gram = torch.zeros(hidden.shape[1], hidden.shape[1], dtype=torch.float64)
    onto_inputs, onto_centered = torch.zeros(2, hidden.shape[1], inputs.shape[1], dtype=torch.float64)
    for rows, targets in zip(hidden.split(BLOCK), inputs.split(BLOCK), strict=True):
        vectors = without_shared(rows, shared).double()
        gram.addmm_(vectors.mT, vectors)
        onto_inputs.addmm_(vectors.mT, targets.double())
        onto_centered.addmm_(vectors.mT, unit(targets - mean).double())
    first = Family(Moments(gram, onto_inputs), "cosine", shared=shared)
    return [first, Family(Moments(gram, onto_centered), "cosine", shared=shared, path=first.path)]
