"""Linear maps that differ in what they are shrunk toward, and by how much: the candidates of a closed-form fit."""

import math
from itertools import product

import torch
from torch import Tensor

from identiformer.equations.identifiability.linear_maps import Moments, RidgePath, orthogonal_map, without_shared
from identiformer.equations.identifiability.recovery import Metric, unit

WEAK, STRONG = (1e-6, 1e-4, 1e-2), (1e-1, 1.0, 10.0)
"""λ in units of the mean eigenvalue. A weak one leads to the same map whatever it shrinks toward."""
SHARES = (0.5, 0.25, 0.75)
BLOCK = 2048  # rows whose copies stay in the cache
DIMENSIONS_PER_SHARED = 100
"""All vectors of a layer have some directions in common, about one for so many dimensions (Mu and Viswanath, ICLR 2018)."""


class Family:
    """The orthogonal map and the identity of one training set, and ridge regressions toward multiples of these."""

    def __init__(
        self,
        training: Moments,
        metric: Metric,
        identity: bool = False,
        shared: Tensor | None = None,
        path: RidgePath | None = None,
    ) -> None:
        """`path`, if at hand, is one of the same hidden vectors."""
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
        self._turned = maps + [self.path.scaled(each) for each in maps]
        self._members = members

    def __len__(self) -> int:
        return len(self._members)

    def turned(self, hidden: Tensor) -> Tensor:
        """Hidden vectors in the coordinates of the members."""
        if self.shared is not None:
            hidden = hidden - (hidden @ self.shared) @ self.shared.mT
        return hidden @ self.path.basis.to(hidden.dtype)

    def coordinates(self, member: int) -> Tensor:
        """A member, for hidden vectors that were turned."""
        toward, shrinkage = self._members[member]
        return self.path.coordinates(shrinkage, self._turned[toward])

    def weights(self, member: int) -> Tensor:
        """A member, for hidden vectors as they are."""
        weights = self.path.basis @ self.coordinates(member)
        if self.shared is not None:
            shared = self.shared.double()
            weights -= shared @ (shared.mT @ weights)
        return weights


class Blend:
    """Sums of two maps whose predictions are about equally long: what one of them misses the other may find."""

    def __init__(self, one: Tensor, other: Tensor, path: RidgePath) -> None:
        self._one, self._other = path.normalized(one), path.normalized(other)

    def __len__(self) -> int:
        return len(SHARES)

    def turned(self, hidden: Tensor) -> Tensor:
        """Hidden vectors as they are."""
        return hidden

    def coordinates(self, member: int) -> Tensor:
        """One share of the first map, the rest of the other."""
        return SHARES[member] * self._one + (1 - SHARES[member]) * self._other

    weights = coordinates


def free_of_lengths(hidden: Tensor, inputs: Tensor, path: RidgePath) -> list[Family]:
    """Families that a regression onto unit vectors does not hold, since cosine does not see how long a prediction is.

    A token that differs from others by little, such as [CLS] from [SEP], is drowned by what they share: without that, and
    at length one again, it counts as much as any. And inputs share a mean, which tells no token from another.
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
