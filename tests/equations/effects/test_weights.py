"""First-order effects against derivatives by autograd, and removed keys against a softmax without them."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations import removed_effects, renormalized_effects, squared_effects

shapes = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4))


def random_heads(shape, seed):
    groups, repeat, queries, keys, width = shape
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(groups * repeat, queries, keys, generator=generator, dtype=torch.float64)
    values = torch.randn(groups, keys, width, generator=generator, dtype=torch.float64)
    gradients = torch.randn(groups * repeat, queries, width, generator=generator, dtype=torch.float64)
    return scores, values, gradients


@given(shapes, st.integers(0, 99))
def test_removed_effects_are_the_derivatives_of_scaling_each_term(shape, seed):
    scores, values, gradients = random_heads(shape, seed)
    weights, repeated = scores.softmax(-1), values.repeat_interleave(shape[1], 0)
    scale = torch.ones_like(weights, requires_grad=True)
    number = (torch.einsum("hqk,hkw->hqw", scale * weights, repeated) * gradients).sum()
    (expected,) = torch.autograd.grad(number, scale)
    torch.testing.assert_close(removed_effects(weights, values, gradients), expected)


@given(shapes, st.integers(0, 99))
def test_renormalized_effects_compare_with_the_softmax_of_the_other_keys(shape, seed):
    scores, values, gradients = random_heads(shape, seed)
    effects = renormalized_effects(scores.softmax(-1), values, gradients)
    output = scores.softmax(-1) @ values.repeat_interleave(shape[1], 0)
    for head, query, key in np.ndindex(*scores.shape):
        if scores.shape[-1] == 1:
            assert torch.isnan(effects[head, query, key])
            continue
        others = [other for other in range(scores.shape[-1]) if other != key]
        left = scores[head, query, others].softmax(-1) @ values[head // shape[1], others]
        expected = (output[head, query] - left) @ gradients[head, query]
        torch.testing.assert_close(effects[head, query, key], expected, rtol=1e-9, atol=1e-9)


def test_a_weight_next_to_one_is_renormalized_by_the_sum_of_the_others():
    weights = torch.tensor([[[1 - 2**-24, 2**-25, 2**-25]]])
    values, gradients = torch.tensor([[[1.0], [3.0], [5.0]]]), torch.ones(1, 1, 1)
    output = (weights[0, 0].double() * values[0, :, 0].double()).sum()
    effect = renormalized_effects(weights, values, gradients)[0, 0, 0]
    torch.testing.assert_close(effect, output - 4, rtol=1e-6, atol=0)


def test_a_learned_sink_takes_part_in_the_softmax():
    scores = torch.tensor([0.3, -0.2, 0.5, 1.0], dtype=torch.float64)  # the last is the sink's, without a value
    values = torch.tensor([[[1.0], [2.0], [4.0]]], dtype=torch.float64)
    weights, gradients = scores.softmax(-1)[None, None, :3], torch.ones(1, 1, 1, dtype=torch.float64)
    left = scores[[1, 2, 3]].softmax(-1)[:2] @ values[0, 1:, 0]
    effect = renormalized_effects(weights, values, gradients, sink=True)[0, 0, 0]
    torch.testing.assert_close(effect, weights[0, 0] @ values[0, :, 0] - left)


@given(shapes, st.integers(0, 99), st.integers(1, 4))
def test_squared_effects_are_half_the_mean_square(shape, seed, draws):
    scores, values, _ = random_heads(shape, seed)
    weights = scores.softmax(-1)
    gradients = torch.stack([random_heads(shape, seed + draw)[2] for draw in range(draws)])
    each = torch.stack([removed_effects(weights, values, draw) for draw in gradients])
    torch.testing.assert_close(squared_effects(weights, values, gradients), each.square().mean(0) / 2)
