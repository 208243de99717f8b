"""The rules of AttnLRP, against the gradient of a function whose factors are frozen one by one."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from identiformer.models.derivatives.relevance import relevance_rules


class Toy(nn.Module):
    """A norm, attention, a gate and an activation."""

    def __init__(self, norm, activation):
        super().__init__()
        self.norm = norm
        self.maps = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))
        self.activation = ACT2FN[activation]

    def forward(self, x):
        query, key, value, gate, up = (linear(self.norm(x)) for linear in self.maps)
        mixed = torch.matmul(functional.softmax(query @ key.mT * 0.7, dim=-1), value)
        return (mixed + self.activation(gate) * up).sum()

    def frozen(self, x, x0):
        """Equal to the forward pass at x0, where each rule freezes what it does not propagate to."""

        def norm(vectors):
            if isinstance(self.norm, LlamaRMSNorm):
                return vectors / (x0.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.norm.weight
            centered = vectors - vectors.mean(-1, keepdim=True)
            scale = (x0.var(-1, unbiased=False, keepdim=True) + self.norm.eps).sqrt()
            return centered / scale * self.norm.weight + self.norm.bias

        def halves(product, first, second):
            return (product(first[0], second[1]) + product(first[1], second[0])) / 2

        pairs = [(linear(norm(x)), linear(norm(x0))) for linear in self.maps]
        query, key, value, gate, up = pairs
        scores = halves(lambda a, b: a @ b.mT, query, key), query[1] @ key[1].mT
        weights = tuple((0.7 * score).softmax(-1) for score in scores)
        mixed = halves(torch.matmul, weights, value)
        quotient = self.activation(gate[1]) / gate[1]
        gated = halves(torch.mul, (gate[0] * quotient, gate[1] * quotient), up)
        return (mixed + gated).sum()


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), LlamaRMSNorm(6, 1e-5)])
@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_new", "relu", "tanh"])
def test_gradients_are_those_of_frozen_factors(norm, activation):
    toy = Toy(norm, activation)
    x = torch.randn(4, 6, requires_grad=True)
    parameters = dict(toy.named_parameters())
    with relevance_rules(toy):
        value = toy(x)
        (gradient,) = torch.autograd.grad(value, x)
    torch.testing.assert_close(value, toy(x))
    (expected,) = torch.autograd.grad(toy.frozen(x, x.detach()), x)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
    assert all(parameter is parameters[name] for name, parameter in toy.named_parameters())
    (plain,) = torch.autograd.grad(toy(x), x)
    assert (plain - gradient).norm() > 0.1 * plain.norm()


def test_an_activation_at_zero_keeps_its_value():
    x = torch.zeros(3, requires_grad=True)
    with relevance_rules(nn.Identity()):
        value = functional.gelu(x)
        (gradient,) = torch.autograd.grad(value.sum(), x)
    assert not value.any()
    assert not gradient.any()
