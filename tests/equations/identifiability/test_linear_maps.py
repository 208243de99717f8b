"""Closed-form maps against SciPy, least squares and gradients by differences."""

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations.identifiability.linear_maps import (
    RidgePath,
    cosine_gradient,
    cosine_loss,
    moments,
    orthogonal_map,
    squared_gradient,
    squared_loss,
    without_shared,
)
from identiformer.equations.identifiability.recovery import unit
from identiformer.errors import InputError


def data(seed, rows=60, width=7, input_width=5):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, width, generator=generator) @ torch.diag(torch.logspace(0, -2, width))
    return hidden, torch.randn(rows, input_width, generator=generator)


@given(seed=st.integers(0, 1000), shrinkage=st.sampled_from([1e-8, 1e-3, 1.0]))
def test_ridge_is_least_squares_with_rows_added(seed, shrinkage):
    hidden, inputs = data(seed)
    found = RidgePath(moments(hidden, inputs)).weights(shrinkage)
    e, x = hidden.double().numpy(), inputs.double().numpy()
    penalty = shrinkage * np.trace(e.T @ e) / e.shape[1]
    stacked = np.vstack([e, np.sqrt(penalty) * np.eye(e.shape[1])])
    expected, *_ = np.linalg.lstsq(stacked, np.vstack([x, np.zeros((e.shape[1], x.shape[1]))]), rcond=None)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_leading_directions_are_those_of_the_singular_values():
    hidden, inputs = data(1)
    found = RidgePath(moments(hidden, inputs)).leading(2)
    _, _, right = np.linalg.svd(hidden.double().numpy())
    np.testing.assert_allclose(found @ found.T, right[:2].T @ right[:2], atol=1e-9)
    assert RidgePath(moments(hidden, inputs)).leading(0).shape == (hidden.shape[1], 0)


def test_without_shared_vectors_are_orthogonal_to_the_directions_and_unit():
    hidden = data(1)[0].double()
    shared = torch.linalg.qr(torch.randn(7, 2, generator=torch.Generator().manual_seed(0)).double()).Q
    left = without_shared(hidden, shared)
    torch.testing.assert_close(left @ shared, torch.zeros(len(hidden), 2, dtype=torch.float64))
    torch.testing.assert_close(left.norm(dim=-1), torch.ones(len(hidden), dtype=torch.float64))
    rest = scipy.linalg.null_space(shared.numpy().T)  # the remainder is the projection on all other directions
    projected = hidden.numpy() @ rest @ rest.T
    np.testing.assert_allclose(left, projected / np.linalg.norm(projected, axis=1, keepdims=True), atol=1e-12)


@given(cut=st.integers(1, 59))
def test_moments_of_a_subset_are_all_minus_the_rest(cut):
    hidden, inputs = data(2)
    whole, rest, part = moments(hidden, inputs), moments(hidden[:cut], inputs[:cut]), moments(hidden[cut:], inputs[cut:])
    for ours, theirs in zip(whole.minus(rest), part, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_vectors_that_do_not_span_the_space_have_a_map():
    hidden, inputs = data(3)
    hidden[:, 3:] = 0
    weights = RidgePath(moments(hidden, inputs)).weights(1e-8)
    expected = np.linalg.pinv(hidden.double().numpy()) @ inputs.double().numpy()  # of least squares the smallest
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("input_width", [7, 5])
def test_the_orthogonal_map_matches_scipy_and_is_optimal(input_width):
    hidden, inputs = data(4, input_width=input_width)
    e, x = unit(hidden).double(), unit(inputs).double()
    found = orthogonal_map(e.T @ x)
    torch.testing.assert_close(found.T @ found, torch.eye(input_width, dtype=torch.float64))
    if input_width == 7:
        expected, _ = scipy.linalg.orthogonal_procrustes(e.numpy(), x.numpy())
        np.testing.assert_allclose(found, expected, atol=1e-10)
    best = float((e @ found * x).sum())
    for seed in range(20):
        turned, _ = torch.linalg.qr(torch.randn(7, input_width, generator=torch.Generator().manual_seed(seed)).double())
        assert float((e @ turned * x).sum()) < best


@pytest.mark.parametrize("which", ["cosine", "l2"])
def test_gradients_match_autograd(which):
    predicted, targets = (tensor[:, :5].double() for tensor in data(5))
    targets = unit(targets) if which == "cosine" else targets
    predicted.requires_grad_()
    plain = (
        (1 - torch.nn.functional.cosine_similarity(predicted, targets)).mean()
        if which == "cosine"
        else (predicted - targets).square().sum(-1).mean()
    )
    plain.backward()
    gradient, loss = (cosine_gradient, cosine_loss) if which == "cosine" else (squared_gradient, squared_loss)
    torch.testing.assert_close(gradient(predicted.detach().clone(), targets), predicted.grad)
    torch.testing.assert_close(loss(predicted.detach(), targets), plain.detach())


def test_as_many_inputs_as_hidden_vectors():
    with pytest.raises(InputError, match="as many inputs"):
        moments(torch.zeros(3, 2), torch.zeros(4, 2))
