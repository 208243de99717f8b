"""A replica computes what its network computes, with the same weights, and can be changed independently."""

import functools

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

import identiformer as idf
from identiformer.models.replica import replica_of
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer, words
from tests.models.network_state import network_state

IDS = torch.tensor([[2, 5, 12, 19, 26, 33, 3]])
FAMILIES = {**SERVED, **ENCODER_DECODERS, **OUTSIDE_THE_INTERFACE}


def output(network):
    decoder = {"decoder_input_ids": IDS[:, :3]} if network.config.is_encoder_decoder else {}
    with torch.no_grad():
        return network(input_ids=IDS, **decoder)[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_replica_shares_all_weights_and_no_module(family):
    network = build(family, FAMILIES[family])
    replica = replica_of(network)
    assert torch.equal(output(replica), output(network))
    assert not set(replica.modules()) & set(network.modules())
    assert [name for name, _ in replica.named_modules()] == [name for name, _ in network.named_modules()]
    for (name, original), (other, shared) in zip(network.named_parameters(), replica.named_parameters(), strict=True):
        assert name == other
        assert original is shared
    assert all(original is shared for original, shared in zip(network.buffers(), replica.buffers(), strict=True))


def test_changes_of_a_replica_do_not_reach_the_network():
    network = build("gpt2", SERVED["gpt2"]).train()
    before = network_state(network)
    replica = replica_of(network)
    assert not any(module.training for module in replica.modules())
    for module in replica.modules():
        module.register_forward_hook(lambda *_: None)
        module.forward = module.forward
        module.register_buffer("of_its_own", torch.ones(1), persistent=False)
        module.note = 1
    replica.config._attn_implementation_internal = "eager"
    replica.config.id2label["9"] = "nine"
    replica.h[0].attn.c_attn.bias = None
    replica.h[1] = nn.Identity()
    assert network_state(network) == before


def test_tied_weights_and_shared_modules_stay_shared():
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt2", **SERVED["gpt2"])).eval()
    network.transformer.h[1] = network.transformer.h[0]
    replica = replica_of(network)
    assert replica.lm_head.weight is replica.transformer.wte.weight
    assert replica.transformer.h[1] is replica.transformer.h[0]
    assert replica.config is replica.transformer.config is replica.transformer.h[0].attn.config
    assert replica.config is not network.config


def in_a_closure(module):
    forward = module.forward
    module.forward = lambda *arguments, **named: forward(*arguments, **named)


def in_a_partial(module):
    """As accelerate does."""
    module._old_forward = module.forward
    module.forward = functools.partial(lambda module, *arguments, **named: module._old_forward(*arguments, **named), module)


def in_a_function_of_the_module(module):
    def forward(*arguments, kept=None, **named):
        return type(module).forward(module, *arguments, **named)

    module.forward = forward


def by_accelerate(module):
    hooks = pytest.importorskip("accelerate.hooks")
    hooks.add_hook_to_module(module, hooks.ModelHook())


@pytest.mark.parametrize("wrap", [in_a_closure, in_a_partial, in_a_function_of_the_module, by_accelerate])
@pytest.mark.parametrize("family", ["bert", "llama", "bloom"])
def test_wrapped_methods_run_the_replica(family, wrap):
    """A forward that still ran the network itself would not be recorded."""
    plain = idf.load(build(family, FAMILIES[family]), word_tokenizer()).trace(words(9))
    network = build(family, FAMILIES[family])
    for module in list(network.modules()):
        if "Attention" in type(module).__name__ or module is network:
            wrap(module)
    before = network_state(network)
    model = idf.load(network, word_tokenizer())
    trace = model.trace(words(9))
    assert all(torch.equal(a.weights, b.weights) for a, b in zip(trace.stack().layers, plain.stack().layers, strict=True))
    assert network_state(network) == before


class Watcher(nn.Module):
    """A module of the user that is not part of the network."""

    handled = 0

    def on_output(self, *_):
        self.handled += 1


def test_hooks_of_the_user_run_in_the_replica_with_their_own_state():
    network, watcher, kept = build("bert", SERVED["bert"]), Watcher(), {}

    def on_output(module, _, __):
        watcher.on_output()
        kept[module] = module.training

    network.encoder.layer[0].register_forward_hook(on_output)
    network.embeddings.register_forward_hook(watcher.on_output)
    model = idf.load(network, word_tokenizer())
    model.trace(words(5))
    first = watcher.handled
    model.trace(words(5))
    assert watcher.handled == first + 2
    assert kept
    assert network.encoder.layer[0] not in kept


def test_modules_and_configurations_in_containers_are_replicated():
    network = build("bert", SERVED["bert"])
    network.listed = [network.encoder, {"deep": (network.pooler, network.config)}]
    network.itself = {"loop": None}
    network.itself["loop"] = network.itself
    replica = replica_of(network)
    encoder, inner = replica.listed
    assert encoder is replica.encoder
    assert inner["deep"] == (replica.pooler, replica.config)
    assert replica.itself["loop"] is replica.itself is not network.itself


def test_weights_that_are_replaced_later_are_used():
    network = build("bert", SERVED["bert"])
    model = idf.load(network, word_tokenizer())
    model.trace(words(5))
    with torch.no_grad():
        dense = network.encoder.layer[0].attention.output.dense
        dense.weight = nn.Parameter(2 * dense.weight)
    again, fresh = model.trace(words(5)), idf.load(network, word_tokenizer()).trace(words(5))
    for layer, other in zip(again.stack().layers, fresh.stack().layers, strict=True):
        assert torch.equal(layer.weights, other.weights)
        assert torch.equal(layer.projection, other.projection)
