"""Small feasible sets with all their vertices, and what multipliers of a linear program prove."""

import itertools

import numpy as np
from hypothesis import strategies as st


def vertices(row, values, sink=False):
    """Every vertex of {a' ≥ 0 : a'V = aV, Σa' = Σa}, by trying every choice of keys; a sink is one more key of value 0."""
    if sink:
        row, values = np.append(row, 1 - row.sum()), np.vstack([values, np.zeros(values.shape[1])])
    augmented = np.hstack([values, np.ones((len(values), 1))])
    target = row @ augmented
    found = []
    for size in range(1, np.linalg.matrix_rank(augmented, tol=1e-9) + 1):
        for keys in map(list, itertools.combinations(range(len(row)), size)):
            weights, _, rank, _ = np.linalg.lstsq(augmented[keys].T, target, rcond=1e-9)
            if rank == size and np.allclose(weights @ augmented[keys], target, rtol=0, atol=1e-10) and (weights > -1e-10).all():
                vertex = np.zeros(len(row))
                vertex[keys] = weights.clip(min=0)
                found.append(vertex)
    return np.array(found)[:, :-1] if sink else np.array(found)


ROWS = ("softmax", "peaked", "one hot", "uniform", "with zeros")


def make_row(kind, keys, rng):
    if kind == "one hot":
        return np.eye(keys)[rng.integers(keys)]
    if kind == "uniform":
        return np.full(keys, 1 / keys)
    row = np.exp((8.0 if kind == "peaked" else 1.0) * rng.normal(size=keys))
    if kind == "with zeros":
        row[rng.permutation(keys)[: keys // 2]] = 0
    return row / row.sum()


def make_values(kind, keys, width, rng):
    values = rng.normal(size=(keys, width))
    if kind == "repeated":
        values = values[rng.integers(0, max(keys // 2, 1), size=keys)]
    if kind == "deficient":
        values = values @ np.diag(np.arange(width) > 0)
    return values


small = {
    "keys": st.integers(2, 7),
    "width": st.integers(1, 3),
    "row": st.sampled_from(ROWS),
    "kind": st.sampled_from(["generic", "repeated", "deficient"]),
    "sink": st.booleans(),
    "seed": st.integers(0, 2**16),
}


def make_case(keys, width, row, kind, sink, seed):
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.3, 0.9) if sink else 1.0
    return share * make_row(row, keys, rng), make_values(kind, keys, width, rng)


def least_in_ball(found, half):
    """What SciPy's multipliers for the box prove of the ball inside it: their 2-norm takes the place of the 1-norm."""
    multipliers = np.abs(found.ineqlin.marginals).reshape(2, -1).sum(0) * half
    return found.fun + multipliers.sum() - np.linalg.norm(multipliers)
