"""Linear maps that differ in what they are shrunk toward, and by how much: the candidates of a closed-form fit."""

import math
from itertools import product

import torch
from torch import Tensor

from identiformer.equations.linear_recovery import Moments, RidgePath, moments, orthogonal_map, without_shared
from identiformer.equations.token_recovery import Metric, unit

WEAK, STRONG = (1e-6, 1e-4, 1e-2), (1e-1, 1.0, 10.0)
"""λ in units of the mean eigenvalue. A weak one leads to the same map whatever it shrinks toward."""
SHARES = (0.5, 0.25, 0.75)
DIMENSIONS_PER_SHARED = 100
"""All vectors of a layer have some directions in common, about one for so many dimensions (Mu and Viswanath, ICLR 2018)."""


class Family:
    """The orthogonal map and the identity of one training set, and ridge regressions toward multiples of these."""

    def __init__(self, training: Moments, metric: Metric, identity: bool = False, shared: Tensor | None = None) -> None:
        self.path = RidgePath(training)
        self.shared = shared
        maps = [orthogonal_map(training.cross)]
        if identity:
            maps.append(torch.eye(len(training.gram), dtype=torch.float64))
        members = [(number, math.inf) for number in range(len(maps))]
        for number in range(len(maps)):
            members += product([len(maps) + number], (STRONG if number else WEAK + STRONG))
            if metric == "l2":  # the distance depends on the scale
                members.append((len(maps) + number, math.inf))
        maps += [self.path.scaled(each) for each in maps]
        self._turned = [self.path.basis.mT @ each for each in maps]
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
    targets = torch.cat([inputs, unit(inputs - inputs.mean(0))], -1)
    gram, cross = moments(without_shared(hidden, shared), targets)
    return [Family(Moments(gram, each), "cosine", shared=shared) for each in cross.split(inputs.shape[1], -1)]
