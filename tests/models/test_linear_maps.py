"""Derivatives through weights that have none, or that are not in memory, against the same model with plain weights."""

import copy
import gc
import weakref

import peft
import pytest
import torch
import transformers
from torch import nn

import identiformer as idf
from identiformer.errors import MemoryBudgetError, UnsupportedModelError
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.derivatives.tangents import find_pushforward
from identiformer.models.linear_maps import LinearMap, in_float32
from identiformer.models.replica import replica_of
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer, words

EVERY = {**SERVED, **OUTSIDE_THE_INTERFACE, **ENCODER_DECODERS}
TEXT = words(8)
WAYS = {
    "forward": {},
    "exact, in reverse": {"exact": True, "targets": [3], "layers": [2]},
}


class EightBits(nn.Module):
    """A linear map with weights in 8 bits and no `weight`, as quantized modules have them."""

    def __init__(self, linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("integers", (linear.weight.detach() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("shift", linear.bias.detach() if linear.bias is not None else torch.zeros(linear.out_features))

    def dequantized(self):
        linear = nn.Linear(self.in_features, self.out_features)
        linear.weight.data, linear.bias.data = self.integers * self.scale, self.shift
        return linear

    @torch.no_grad()  # such kernels have no derivative
    def forward(self, inputs):
        return inputs @ (self.integers * self.scale).mT + self.shift


def replaced(network, change):
    """A copy of a network with every linear map changed."""
    network = copy.deepcopy(network)
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear | EightBits):
                setattr(module, name, change(child))
    return network.eval()


def quantized(family, folder):
    network = replaced(build(family, SERVED[family]), EightBits)
    return network, replaced(network, EightBits.dequantized)


def adapted(family, folder):
    targets = {"bert": ["query", "attention.output.dense", "intermediate.dense"], "llama": ["q_proj", "o_proj", "down_proj"]}
    settings = peft.LoraConfig(target_modules=targets[family], init_lora_weights=False)
    network = peft.get_peft_model(build(family, SERVED[family]), settings).eval()
    return network, copy.deepcopy(network).merge_and_unload()


def on_disk(family, folder):
    network = build(family, SERVED[family])
    network.save_pretrained(folder, max_shard_size="30KB")
    return transformers.AutoModel.from_pretrained(folder, device_map={"": "disk"}), network


def in_half_precision(family, folder):
    network = build(family, SERVED[family]).bfloat16()
    return network, copy.deepcopy(network).float()


@pytest.fixture(scope="module", params=[quantized, adapted, on_disk, in_half_precision], ids=lambda make: make.__name__)
def both(request, tmp_path_factory):
    torch.manual_seed(0)
    networks = request.param("llama", tmp_path_factory.mktemp("model"))
    return tuple(idf.load(network, word_tokenizer()) for network in networks)


@pytest.mark.parametrize("way", WAYS)
def test_attribution_is_that_of_plain_weights(both, way):
    result, expected = (idf.token_attribution(model, TEXT, **WAYS[way]) for model in both)
    assert abs(result.contribution - expected.contribution).max() < 1e-6


def test_gradients_are_those_of_plain_weights(both):
    def output(result):
        return result.last_hidden_state[0, -1, 0]

    result, expected = (idf.gradient_times_input(model, TEXT, output=output) for model in both)
    assert abs(result.attribution - expected.attribution).max() < 1e-6
    assert abs(expected.attribution).max() > 1e-3


def test_known_blocks_are_pushed_analytically_and_others_directly(both):
    model, _ = both
    function = model.input_function(TEXT)[0]
    assert find_pushforward(function, False).name == "analytic"
    function.network.layers[0].mlp.extra = LinearMap(nn.Linear(3, 3))
    pushforward = find_pushforward(function, False)
    assert pushforward.name == "direct"
    sources, directions = torch.tensor([2]), torch.randn(1, 32)
    del function.network.layers[0].mlp.extra
    expected = [layer.hidden for layer in find_pushforward(function, False).push(sources, directions)]
    for layer, of_layer in zip(pushforward.push(sources, directions), expected, strict=True):
        torch.testing.assert_close(layer.hidden[:, 2:], of_layer, atol=1e-5, rtol=1e-4)


def test_the_network_is_left_as_it_was(both):
    model, _ = both
    before = {name: (type(module), tuple(map(id, module._parameters.values()))) for name, module in model.network.named_modules()}
    idf.token_attribution(model, TEXT, layers=[2], targets=[1])
    after = {name: (type(module), tuple(map(id, module._parameters.values()))) for name, module in model.network.named_modules()}
    assert after == before


def test_a_gradient_holds_no_weights_of_the_layers(monkeypatch):
    """The graph of a run keeps activations only: matrices are gone after the run, and read again for the gradient."""
    network, _ = quantized("llama", None)
    matrices = []
    read = LinearMap.weight.fget

    def weight(self):
        matrix = read(self)
        matrices.append(weakref.ref(matrix))
        return matrix

    monkeypatch.setattr(LinearMap, "weight", property(weight))
    function = idf.load(network, word_tokenizer()).input_function(TEXT)[0]
    change = function.no_change.requires_grad_()
    del matrices[:]
    with torch.enable_grad():
        states = function.run(change)
    gc.collect()
    assert len(matrices) == 14
    assert not any(matrix() is not None for matrix in matrices)
    (gradient,) = torch.autograd.grad(states.hidden[-1][-1].sum(), change)
    assert gradient.any()
    assert len(matrices) > 20


def test_memory_counts_the_matrices_of_one_layer(both):
    model, plain = both
    function, other = (each.input_function(TEXT)[0] for each in (model, plain))
    matrices = sum(parameter.numel() * 4 for parameter in other.network.layers[0].parameters() if parameter.ndim == 2)
    states = find_pushforward(function, False).kept - matrices
    assert 0 < states < find_pushforward(other, False).kept
    with pytest.raises(MemoryBudgetError, match="MiB of memory"):
        idf.token_attribution(model, TEXT, memory=matrices)


@pytest.mark.parametrize("family", ["albert", "gpt2", "t5", "deberta-v2", "gpt_oss"])
def test_half_precision_of_any_family_is_converted_as_a_whole_copy_is(family):
    network = build(family, EVERY[family]).bfloat16()
    model, plain = (idf.load(each, word_tokenizer()) for each in (network, copy.deepcopy(network).float()))
    functions: list[InputFunction] = [each.input_function(TEXT)[0] for each in (model, plain)]
    result, expected = (function.run(function.no_change).hidden[-1] for function in functions)
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_quantized_weights_outside_linear_maps_are_rejected():
    network = build("bert", SERVED["bert"])
    norm = network.encoder.layer[0].output.LayerNorm
    norm.weight = nn.Parameter(torch.ones(32, dtype=torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedModelError, match=r"LayerNorm has quantized weights \(weight\)"):
        in_float32(replica_of(network))
