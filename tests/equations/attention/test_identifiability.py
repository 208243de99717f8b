"""Nullity of a whole layer, and identifiability given the keys."""

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from scipy.special import softmax

from identiformer.equations import key_constrained, layer_nullity
from identiformer.errors import InputError


def test_heads_wider_than_the_model_compensate_for_one_another():
    rng = np.random.default_rng(0)
    values, projection = rng.normal(size=(32, 12, 16)), rng.normal(size=(32, 16, 256))
    assert layer_nullity(values, projection).tolist() == [32 * 12 - 256]  # no head alone has a null space


def test_heads_as_wide_as_the_model_add_up():
    rng = np.random.default_rng(1)
    values, projection = rng.normal(size=(4, 11, 8)), rng.normal(size=(4, 8, 32))
    assert layer_nullity(values, projection, queries=3).tolist() == [4 * (11 - 8)] * 3


def test_grouped_heads_and_causal_rows_against_a_plain_rank():
    rng = np.random.default_rng(2)
    values, projection = rng.normal(size=(2, 9, 3)), rng.normal(size=(4, 3, 7))
    found = layer_nullity(values, projection, np.tril(np.ones((9, 9), dtype=bool)))
    for row in range(9):
        stacked = np.concatenate([values[head // 2, : row + 1] @ projection[head] for head in range(4)])
        assert found[row] == len(stacked) - np.linalg.matrix_rank(stacked)


def test_mismatched_shapes_are_rejected():
    with pytest.raises(InputError, match="of one width"):
        layer_nullity(np.ones((2, 5, 3)), np.ones((4, 2, 7)))


@pytest.mark.parametrize(("keys", "key_width", "width", "identifiable"), [(20, 3, 5, True), (20, 5, 3, False), (4, 8, 6, True)])
def test_the_derivative_matches_softmax(keys, key_width, width, identifiable):
    rng = np.random.default_rng(3)
    k, v, query = rng.normal(size=(keys, key_width)), rng.normal(size=(keys, width)), rng.normal(size=key_width)

    def attend(q):
        return softmax(0.5 * k @ q)

    found = key_constrained(attend(query)[None], k, v, 0.5)
    by_differences = approx_fprime(query, lambda q: attend(q) @ v, 1e-7)
    sigma = np.linalg.svd(by_differences, compute_uv=False)
    dimension = min(key_width, keys - 1)
    assert found.dimension[0] == dimension
    assert found.identifiable[0] == identifiable
    if identifiable:
        np.testing.assert_allclose(found.smallest[0], sigma[dimension - 1], rtol=1e-4)
        np.testing.assert_allclose(found.condition[0], sigma[0] / sigma[dimension - 1], rtol=1e-4)
    else:
        assert found.smallest[0] == 0


def test_rows_are_identifiable_at_any_length_if_keys_are_at_most_as_wide_as_values():
    generator = torch.Generator().manual_seed(4)
    k, v = (torch.randn(300, 16, generator=generator, dtype=torch.float64) for _ in range(2))
    weights = (torch.randn(5, 16, generator=generator, dtype=torch.float64) @ k.mT / 4).softmax(-1)
    assert bool(key_constrained(weights, k, v, 0.25).identifiable.all())


def test_a_row_on_one_key_does_not_determine_its_query():
    found = key_constrained(np.eye(6)[:1], np.random.default_rng(5).normal(size=(6, 2)), np.eye(6), 1.0)
    assert found.dimension[0] == 0
    assert found.identifiable[0]  # no small change of the query changes attention at all
