"""Closed-form maps against SciPy, least squares and gradients by differences."""

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations.linear_recovery import (
    RidgePath,
    cosine_descent,
    cosine_gradient,
    moments,
    orthogonal_map,
    squared_gradient,
)
from identiformer.equations.token_recovery import unit
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


def test_whitening_makes_the_penalised_gram_the_identity():
    hidden, inputs = data(1)
    whitening = RidgePath(moments(hidden, inputs)).whitening(0.1)
    gram = hidden.double().T @ hidden.double()
    penalised = gram + 0.1 * gram.trace() / len(gram) * torch.eye(len(gram))
    torch.testing.assert_close(whitening.T @ penalised @ whitening, torch.eye(len(gram), dtype=torch.float64))


@given(cut=st.integers(1, 59))
def test_moments_of_a_part_are_the_whole_less_the_rest(cut):
    hidden, inputs = data(2)
    whole, rest, part = moments(hidden, inputs), moments(hidden[:cut], inputs[:cut]), moments(hidden[cut:], inputs[cut:])
    for ours, theirs in zip(whole.less(rest), part, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_space_that_is_not_filled_has_a_map_all_the_same():
    hidden, inputs = data(3)
    hidden[:, 3:] = 0
    weights = RidgePath(moments(hidden, inputs)).weights(1e-8)
    assert bool(weights.isfinite().all())
    torch.testing.assert_close(weights[3:], torch.zeros_like(weights[3:]))


@pytest.mark.parametrize("input_width", [7, 5])
def test_the_orthogonal_map_is_that_of_scipy_and_the_best(input_width):
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
def test_gradients_are_those_of_autograd(which):
    predicted, targets = (tensor[:, :5].double() for tensor in data(5))
    targets = unit(targets) if which == "cosine" else targets
    predicted.requires_grad_()
    plain = (
        (1 - torch.nn.functional.cosine_similarity(predicted, targets)).mean()
        if which == "cosine"
        else (predicted - targets).square().sum(-1).mean()
    )
    plain.backward()
    gradient, loss = (cosine_gradient if which == "cosine" else squared_gradient)(predicted.detach().clone(), targets)
    torch.testing.assert_close(gradient, predicted.grad)
    torch.testing.assert_close(loss, plain.detach())


def test_descent_lowers_the_cosine_distance_to_where_a_general_optimiser_ends():
    hidden, inputs = data(6, rows=200)
    hidden, inputs = unit(hidden).double(), unit(inputs).double()
    inputs = unit(inputs + 2 * hidden[:, :5])
    path = RidgePath(moments(hidden, inputs))
    start = path.weights(1e-6)

    def distance(weight):
        return 1 - float((unit(hidden @ weight) * inputs).sum(-1).mean())

    reached = [distance(weight) for weight in cosine_descent(start, path.whitening(1e-6), hidden, inputs, 25)]
    assert all(later <= earlier + 1e-12 for earlier, later in zip([distance(start), *reached], reached, strict=False))

    def with_slope(flat):
        weight = torch.from_numpy(flat.reshape(start.shape)).requires_grad_()
        loss = 1 - torch.nn.functional.cosine_similarity(hidden @ weight, inputs).mean()
        loss.backward()
        return float(loss.detach()), weight.grad.numpy().ravel()

    expected = scipy.optimize.minimize(with_slope, start.numpy().ravel(), jac=True, method="BFGS", options={"maxiter": 2000})
    assert reached[-1] == pytest.approx(expected.fun, abs=1e-5)
    assert reached[-1] < distance(start) - 2e-4


def test_as_many_inputs_as_hidden_vectors():
    with pytest.raises(InputError, match="as many inputs"):
        moments(torch.zeros(3, 2), torch.zeros(4, 2))
