"""Gradient × attention against a sum over paths."""

import itertools

import torch

from identiformer.equations.maps.rollout import gradient_attention


def test_it_sums_the_products_of_all_paths_that_skip_layers():
    weights, gradients = torch.rand(3, 2, 4, 4, dtype=torch.float64), torch.randn(3, 2, 4, 4, dtype=torch.float64)
    layers = [(weight * gradient).relu().mean(0) for weight, gradient in zip(weights, gradients, strict=True)]
    expected = torch.zeros(4, 4, dtype=torch.float64)
    for count in (1, 2, 3):
        for chosen in itertools.combinations(layers, count):
            product = torch.eye(4, dtype=torch.float64)
            for layer in chosen:
                product = layer @ product
            expected += product
    torch.testing.assert_close(gradient_attention(weights, gradients), expected)
