"""Pushforwards agree with each other and with reverse mode, and leave the model unchanged."""

from contextlib import contextmanager

import pytest
import torch

from identiformer.models import load
from identiformer.models.derivatives.analytic_blocks import read_blocks
from identiformer.models.derivatives.tangents import AnalyticPushforward, TorchPushforward, find_pushforward
from tests.models.families import ENCODER_DECODERS, LIKE_OTHERS, SERVED, build, each, word_tokenizer, words

EVERY = {**SERVED, **ENCODER_DECODERS}
ANALYTIC = {"bert", "roberta", "gpt2", "llama", "mistral"}


def function_of(family: str, input_site: str = "before"):
    return load(build(family, EVERY[family]), word_tokenizer()).input_function(words(7), input_site=input_site)[0]


def hooks_of(network) -> list[int]:
    """Count the hooks of each module after a run, in which transformers sets its own."""
    encoder = network.get_encoder() if network.config.is_encoder_decoder else network
    encoder(torch.tensor([[5, 6]]), output_hidden_states=True)
    return [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in network.modules()]


@contextmanager
def unchanged(network):
    """Check that a network in training has the same weights, hooks and settings afterwards."""
    before = {name: parameter.clone() for name, parameter in network.state_dict().items()}
    attention, experts = network.config._attn_implementation, network.config._experts_implementation
    hooks = hooks_of(network)
    yield
    assert all(torch.equal(parameter, before[name]) for name, parameter in network.state_dict().items())
    assert (network.config._attn_implementation, network.config._experts_implementation) == (attention, experts)
    assert all(module.training for module in network.modules())
    assert hooks_of(network) == hooks
    assert all(parameter.grad is None for parameter in network.parameters())


def tangents_of(pushforward, function) -> tuple[torch.Tensor, torch.Tensor]:
    """Push two changes of different vectors; return the tangents of hidden states and head outputs of all layers."""
    sources = torch.tensor([2, 4])
    directions = torch.randn(2, function.x.shape[1], generator=torch.Generator().manual_seed(1)).to(function.x)
    hidden, heads = [], []
    with torch.no_grad():
        for first, moved, outputs in pushforward.push(sources, directions):
            padding = (0, 0, first, 0)
            hidden.append(torch.nn.functional.pad(moved, padding))
            heads.append(torch.nn.functional.pad(outputs, padding))
    return torch.stack(hidden), torch.stack(heads)


@pytest.mark.parametrize("family", each(EVERY, {*LIKE_OTHERS, "gemma2", "gpt_neox"}))  # like gemma3 and opt
def test_pushed_tangents_agree_with_reverse_mode_and_the_model_is_left_unchanged(family):
    network = build(family, EVERY[family]).train()
    model = load(network, word_tokenizer())
    with unchanged(network):
        function = model.input_function(words(7))[0]
        pushforward = find_pushforward(function, heads=True)
    assert (pushforward.name == "analytic") == (family in ANALYTIC)
    change = function.no_change.requires_grad_()
    states = function.run(change)
    tangents = torch.randn(2, function.x.shape[1], generator=torch.Generator().manual_seed(1))
    for moved, layers in zip(tangents_of(pushforward, function), (states.hidden, states.head_outputs), strict=True):
        for layer, state in enumerate(layers):
            weights = torch.randn_like(state)
            (pulled,) = torch.autograd.grad(state, change, weights, retain_graph=True)
            expected = (pulled[[2, 4]] * tangents).sum(-1)
            actual = (moved[layer] * weights).flatten(1).sum(-1)
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5 * float(moved[layer].norm() * weights.norm()))


@pytest.mark.parametrize("family", each(sorted(ANALYTIC), {*LIKE_OTHERS, "mistral"}))
@pytest.mark.parametrize("input_site", ["before", "after"])
def test_analytic_pushforward_agrees_with_torch(family, input_site):
    function = function_of(family, input_site)
    blocks = read_blocks(function)
    assert blocks is not None
    assert blocks.causal == (family in {"gpt2", "llama", "mistral"})
    pushforwards = [AnalyticPushforward(function, blocks), TorchPushforward.direct(function, heads=True)]
    if input_site == "before":  # a graph takes seconds to build, and the site changes only its first operations
        with torch.no_grad():
            pushforwards.append(TorchPushforward.linearized(function, heads=True))
    analytic, *others = (tangents_of(pushforward, function) for pushforward in pushforwards)
    for other in others:
        for actual, expected in zip(analytic, other, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=2e-6 * float(expected.abs().max()))


def test_analytic_blocks_that_disagree_with_the_model_are_not_used():
    network = build("bert", EVERY["bert"])
    layer = network.encoder.layer[1].output.LayerNorm
    layer.forward = lambda x: 1.5 * torch.nn.LayerNorm.forward(layer, x)  # same layout, other function
    function = load(network, word_tokenizer()).input_function(words(7))[0]
    assert read_blocks(function) is not None
    assert find_pushforward(function, heads=True).name == "linearized"


def test_a_linearization_that_is_wrong_is_not_used(monkeypatch):
    function = function_of("opt")
    assert find_pushforward(function, heads=False).name == "linearized"
    right = torch.func.linearize

    def wrong(function, point):
        value, push = right(function, point)
        return value, lambda tangent: torch.utils._pytree.tree_map(lambda part: part * 1.001, push(tangent))

    monkeypatch.setattr("identiformer.models.derivatives.tangents.linearize", wrong)
    assert find_pushforward(function, heads=False).name == "direct"
