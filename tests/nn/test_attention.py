"""The identifiable layer: against a plain loop over heads, finite differences, and the rank that it is built for."""

import pytest
import torch

from identiformer.equations import layer_nullity
from identiformer.errors import InputError
from identiformer.nn import IdentifiableSelfAttention


def layer_of(width=12, heads=3, key_width=2, value_width=None):
    torch.manual_seed(0)
    return IdentifiableSelfAttention(width, heads, key_width, value_width).double().eval()


def loop_over_heads(layer, vectors, visible):
    """The layer's formula, head by head and row by row."""
    total = layer.output.bias.repeat(len(vectors), 1)
    for head in range(layer.heads):
        keys = slice(head * layer.key_width, (head + 1) * layer.key_width)
        values = slice(head * layer.value_width, (head + 1) * layer.value_width)
        queries, key = (each(vectors)[:, keys] for each in (layer.query, layer.key))
        value = layer.value(vectors)[:, values]
        for row, query in enumerate(queries):
            scores = torch.tensor([float(query @ one) / layer.key_width**0.5 for one in key], dtype=torch.float64)
            powers = scores.exp() * visible
            total[row] += (powers / powers.sum()) @ value @ layer.output.weight[:, values].T
    return total


@pytest.mark.parametrize(("key_width", "value_width"), [(2, None), (4, 4), (1, 7), (9, 12)])
def test_output_is_that_of_a_loop_over_heads(key_width, value_width):
    layer, vectors = layer_of(key_width=key_width, value_width=value_width), torch.randn(2, 6, 12).double()
    visible = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    with torch.no_grad():
        output, weights = layer(vectors, visible)
        for one, mask, result in zip(vectors, visible, output, strict=True):
            assert (result - loop_over_heads(layer, one, mask)).abs().max() < 1e-6
    assert not weights[1, ..., 4:].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_padding_changes_nothing():
    layer, vectors = layer_of(), torch.randn(1, 5, 12).double()
    padded = torch.cat([vectors, 100 * torch.ones(1, 3, 12).double()], 1)
    with torch.no_grad():
        expected = layer(vectors)[0]
        result = layer(padded, torch.tensor([[1] * 5 + [0] * 3]))[0][:, :5]
    assert (result - expected).abs().max() < 1e-12


def test_gradients_are_those_of_finite_differences():
    layer, vectors = layer_of(), torch.randn(1, 4, 12).double().requires_grad_()
    torch.autograd.gradcheck(lambda x: layer(x, torch.tensor([[1, 1, 1, 0]]))[0][:, :3], vectors, atol=1e-6)
    parameters = [*layer.parameters()]
    probe = torch.randn(4, 12).double()
    loss = (layer(vectors)[0][0] * probe).sum()
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        direction = torch.randn_like(parameter)
        moved = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
                moved.append(float((layer(vectors)[0][0] * probe).sum()))
                parameter.add_(direction, alpha=-step)
        assert abs((moved[0] - moved[1]) / 2e-6 - float((gradient * direction).sum())) < 1e-6


@pytest.mark.parametrize("length", [5, 12, 30])
def test_rank_of_every_head_is_that_of_the_length_up_to_the_width(length):
    layer, vectors = layer_of(), torch.randn(length, 12).double()
    values = layer.value(vectors).unflatten(-1, (3, 12)).transpose(0, 1).detach()
    maps = layer.output.weight.detach().T.unflatten(0, (3, 12))
    transmitted = values @ maps
    assert torch.linalg.matrix_rank(transmitted).tolist() == [min(length, 12)] * 3
    # The sum over heads has only as many equations as the model is wide, whatever the widths of the heads.
    assert int(layer_nullity(values, maps)) == 3 * length - 12 if length >= 4 else 0


@pytest.mark.parametrize(
    ("widths", "named"),
    [
        ((12, 3, 0, None), "key_width to be an integer of at least 1, got 0"),
        ((12, 0, 2, None), "heads to be an integer of at least 1, got 0"),
        ((12, 3, 2, 13), "value_width to be at most the width of the model, 12, got 13"),
    ],
)
def test_widths_that_do_not_fit_are_named(widths, named):
    with pytest.raises(InputError, match=named):
        IdentifiableSelfAttention(*widths)
    with pytest.raises(InputError, match=r"a dropout of at least 0 and below 1, got 2\.0"):
        IdentifiableSelfAttention(12, 3, 2, dropout=2.0)


def test_vectors_and_masks_that_do_not_fit_are_rejected():
    layer = layer_of()
    with pytest.raises(InputError, match=r"\(batch position 12\), as wide as the layer, got \(2, 5, 11\)"):
        layer(torch.zeros(2, 5, 11))
    with pytest.raises(InputError, match=r"a mask \(2, 5\), .* got \(2, 6\)"):
        layer(torch.zeros(2, 5, 12), torch.ones(2, 6))
