"""Hand-written gradients of the maps, against autograd."""

import pytest
import torch

from identiformer.equations.identifiability.linear_maps import cosine_gradient, squared_gradient
from identiformer.equations.identifiability.recovery import unit
from identiformer.probes.maps import untrained_map


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("loss", ["cosine", "l2"])
def test_gradients_match_autograd(kind, dropout, loss):
    generator = torch.Generator().manual_seed(0)
    network = untrained_map(kind, 6, 5, 9, dropout, generator).double()
    hidden, targets = (torch.randn(20, width, generator=generator).double() for width in (6, 5))
    targets = unit(targets) if loss == "cosine" else targets
    slope = cosine_gradient if loss == "cosine" else squared_gradient
    torch.manual_seed(3)
    for _ in range(2):  # what a step left behind does not count
        state = torch.get_rng_state()
        network.backpropagate(hidden, lambda predicted: slope(predicted, targets))
    ours = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    torch.set_rng_state(state)
    if kind == "mlp":
        active = torch.nn.functional.gelu(network.inner(hidden))
        predicted = network.outer(active * torch.nn.functional.dropout(torch.ones_like(active), dropout))
    else:
        predicted = network(hidden)
    plain = (
        (1 - torch.nn.functional.cosine_similarity(predicted, targets)).mean()
        if loss == "cosine"
        else (predicted - targets).square().sum(-1).mean()
    )
    plain.backward()
    for gradient, parameter in zip(ours, network.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_glorot_weights_and_zero_biases():
    network = untrained_map("mlp", 300, 200, 400, 0.0, torch.Generator().manual_seed(0))
    limit = (6 / (300 + 400)) ** 0.5
    weight = network.inner.weight.detach()
    assert limit * 0.99 < float(weight.abs().max()) <= limit
    assert float(weight.std()) == pytest.approx(limit / 3**0.5, rel=0.01)
    assert not network.inner.bias.any()
    assert not hasattr(untrained_map("linear", 3, 2, 4, 0.0, torch.Generator()), "bias")
