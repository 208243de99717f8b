"""The definitions, row by row and by plain SVD: slow, and independent of the code under test."""

import numpy as np
import scipy.linalg
from hypothesis import strategies as st

EPS32 = np.finfo(np.float32).eps


def effective_row(row: np.ndarray, values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """a⊥ = a - aNN^T with scipy's null space of the values that the row sees."""
    shown = values[seen].astype(np.float64)
    null = scipy.linalg.null_space(shown.T, rcond=max(shown.shape) * EPS32)
    answer = np.zeros(len(row))
    answer[seen] = row[seen] - null @ (null.T @ row[seen])
    return answer


def effective(weights: np.ndarray, values: np.ndarray, visible: np.ndarray) -> np.ndarray:
    repeat = len(weights) // len(values)
    rows = [
        [effective_row(row, values[head // repeat], seen) for row, seen in zip(own, visible, strict=True)]
        for head, own in enumerate(weights)
    ]
    return np.array(rows)


def rank_of_rows(values: np.ndarray, visible: np.ndarray) -> np.ndarray:
    return np.array(
        [
            np.linalg.matrix_rank(values[seen].astype(np.float64), rtol=max(seen.sum(), values.shape[1]) * EPS32)
            for seen in visible
        ]
    )


def has_clear_rank(values: np.ndarray, visible: np.ndarray) -> bool:
    """Whether no singular value is near the threshold, where rounding decides the rank."""
    for own in values:
        for seen in visible:
            sigma = np.linalg.svd(own[seen].astype(np.float64), compute_uv=False)
            ratio = sigma / max(sigma[0], 1e-30) / (max(seen.sum(), own.shape[1]) * EPS32)
            if ((ratio > 0.02) & (ratio < 500)).any():
                return False
    return True


def softmax(scores: np.ndarray, visible: np.ndarray) -> np.ndarray:
    masked = np.where(visible, scores, -np.inf)
    exponents = np.exp(masked - masked.max(-1, keepdims=True))
    return (exponents / exponents.sum(-1, keepdims=True)).astype(np.float32)


def masks(queries: int, keys: int, kind: str, generator: np.random.Generator) -> np.ndarray:
    """A mask of this kind; causal and windowed ones are square."""
    query, key = np.arange(queries)[:, None], np.arange(keys)
    if kind == "full":
        return np.ones((queries, keys), bool)
    if kind == "causal":
        return key <= query
    if kind == "window":
        size = int(generator.integers(1, keys + 1))
        return (key <= query) & (key > query - size)
    if kind == "packed":
        cut = int(generator.integers(1, keys)) if keys > 1 else 1
        return (key < cut) == (query < cut)
    if kind == "packed_causal":
        return masks(queries, keys, "packed", generator) & (key <= query)
    if kind == "shuffled":
        return (key <= query)[generator.permutation(queries)]
    if kind == "prefix":
        return key <= np.maximum(query, keys // 3)
    random = generator.random((queries, keys)) < 0.5
    random[np.arange(queries), generator.integers(0, keys, queries)] = True
    return random


KINDS = ("full", "causal", "window", "packed", "packed_causal", "prefix", "shuffled", "random")


@st.composite
def attentions(draw):
    """Weights, values and visibility of any kind, with values of full and of low rank, with and without repeated keys."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(KINDS))
    keys = draw(st.integers(1, 40))
    queries = draw(st.integers(1, 12)) if kind in ("full", "random") else keys
    width = draw(st.integers(1, 12))
    groups = draw(st.integers(1, 2))
    repeat = draw(st.integers(1, 2))
    rank = draw(st.integers(1, width))
    values = generator.normal(size=(groups, keys, rank)) @ generator.normal(size=(groups, rank, width))
    if draw(st.booleans()):
        values = values[:, generator.integers(0, keys, keys)]
    visible = masks(queries, keys, kind, generator)
    scores = generator.normal(size=(groups * repeat, queries, keys)) * draw(st.sampled_from([0.3, 2.0, 8.0]))
    return softmax(scores, visible), values.astype(np.float32), visible
