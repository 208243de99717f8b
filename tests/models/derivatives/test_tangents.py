"""The ways through a model, held to each other and to reverse mode; and the model left as it was."""

import pytest
import torch

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models import load
from identiformer.models.derivatives.analytic_blocks import read_blocks
from identiformer.models.derivatives.tangents import GeneralSweep, WrittenSweep, find_sweep
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words

EVERY = {**SERVED, **ENCODER_DECODERS}
WRITTEN = {"bert", "roberta", "llama", "mistral"}


def entry_of(family: str, where: str = "before"):
    return load(build(family, EVERY[family]), word_tokenizer()).entry(words(7), where=where)[0]


def pushed_everywhere(sweep, entry) -> tuple[torch.Tensor, torch.Tensor]:
    """Two changes of different vectors, all layers: hidden states and head outputs."""
    sources = torch.tensor([2, 4])
    directions = torch.randn(2, entry.point.shape[1], generator=torch.Generator().manual_seed(1)).to(entry.point)
    hidden, heads = [], []
    with torch.no_grad():
        for first, moved, outputs in sweep.push(sources, directions):
            padding = (0, 0, first, 0)
            hidden.append(torch.nn.functional.pad(moved, padding))
            heads.append(torch.nn.functional.pad(outputs, padding))
    return torch.stack(hidden), torch.stack(heads)


@pytest.mark.parametrize("family", EVERY)
def test_every_family_is_pushed_through_as_reverse_mode_has_it(family):
    entry = entry_of(family)
    sweep = find_sweep(entry, heads=True)
    assert (sweep.name == "written") == (family in WRITTEN)
    change = entry.unchanged.requires_grad_()
    states = entry.run(change)
    tangents = torch.randn(2, entry.point.shape[1], generator=torch.Generator().manual_seed(1))
    for moved, layers in zip(pushed_everywhere(sweep, entry), (states.hidden, states.head_outputs), strict=True):
        for layer, state in enumerate(layers):
            weights = torch.randn_like(state)
            (pulled,) = torch.autograd.grad(state, change, weights, retain_graph=True)
            expected = (pulled[[2, 4]] * tangents).sum(-1)
            found = (moved[layer] * weights).flatten(1).sum(-1)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(moved[layer].norm() * weights.norm()))


@pytest.mark.parametrize("family", sorted(WRITTEN))
@pytest.mark.parametrize("where", ["before", "after"])
def test_written_blocks_are_what_the_general_ways_give(family, where):
    entry = entry_of(family, where)
    blocks = read_blocks(entry)
    assert blocks is not None
    assert blocks.causal == (family in {"llama", "mistral"})
    ways = [WrittenSweep(entry, blocks), GeneralSweep.direct(entry, heads=True)]
    with torch.no_grad():
        ways.append(GeneralSweep.linearised(entry, heads=True))
    written, *others = (pushed_everywhere(way, entry) for way in ways)
    for other in others:
        for found, expected in zip(written, other, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-6 * float(expected.abs().max()))


def test_written_blocks_that_do_not_agree_with_the_model_are_not_used():
    network = build("bert", EVERY["bert"])
    layer = network.encoder.layer[1].output.LayerNorm
    layer.forward = lambda x: 1.5 * torch.nn.LayerNorm.forward(layer, x)  # looks the same, does another thing
    entry = load(network, word_tokenizer()).entry(words(7))[0]
    assert read_blocks(entry) is not None
    assert find_sweep(entry, heads=True).name == "linearised"


def test_a_linearisation_that_is_wrong_is_not_used(monkeypatch):
    entry = entry_of("gpt2")
    assert find_sweep(entry, heads=False).name == "linearised"
    right = torch.func.linearize

    def wrong(function, point):
        value, push = right(function, point)
        return value, lambda tangent: torch.utils._pytree.tree_map(lambda part: part * 1.001, push(tangent))

    monkeypatch.setattr("identiformer.models.derivatives.tangents.linearize", wrong)
    assert find_sweep(entry, heads=False).name == "direct"


def hooks_of(network) -> list[int]:
    """How many hooks each module has, once transformers has set its own."""
    encoder = network.get_encoder() if network.config.is_encoder_decoder else network
    encoder(torch.tensor([[5, 6]]), output_hidden_states=True)
    return [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in network.modules()]


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "llama", "gpt_oss", "t5"])
def test_the_model_is_left_as_it_was(family):
    network = build(family, EVERY[family]).train()
    model = load(network, word_tokenizer())
    before = {name: parameter.clone() for name, parameter in network.state_dict().items()}
    attention, experts = network.config._attn_implementation, network.config._experts_implementation
    hooks = hooks_of(network)
    find_sweep(model.entry(words(7))[0], heads=True)
    assert all(torch.equal(parameter, before[name]) for name, parameter in network.state_dict().items())
    assert (network.config._attn_implementation, network.config._experts_implementation) == (attention, experts)
    assert all(module.training for module in network.modules())
    assert hooks_of(network) == hooks
    assert all(parameter.grad is None for parameter in network.parameters())


def test_where_the_input_stands():
    with_norm, without = entry_of("bert"), entry_of("llama")
    network = with_norm.network
    assert with_norm.door is network.embeddings.LayerNorm
    embeddings = network.embeddings
    ids = with_norm.inputs["input_ids"]
    summed = (
        embeddings.word_embeddings(ids)
        + embeddings.position_embeddings(torch.arange(ids.shape[1]))
        + embeddings.token_type_embeddings(torch.zeros_like(ids))
    )
    torch.testing.assert_close(with_norm.point, summed[0])
    torch.testing.assert_close(entry_of("bert", "after").point, embeddings.LayerNorm(summed)[0])
    torch.testing.assert_close(without.point, without.network.embed_tokens(without.inputs["input_ids"])[0])
    assert entry_of("albert").point.shape[1] == 16
    with pytest.raises(InputError, match="'before' or 'after'"):
        entry_of("bert", "between")


def test_numbers_that_are_none_are_refused_with_their_layer():
    network = build("bert", EVERY["bert"])
    model = load(network, word_tokenizer())
    with torch.no_grad():
        network.encoder.layer[1].output.dense.bias[0] = torch.nan
    with pytest.raises(InputError, match="layer 2"):
        model.entry(words(7))


def test_half_precision_is_lifted_and_quantized_weights_are_refused():
    network = build("bert", EVERY["bert"]).bfloat16()
    model = load(network, word_tokenizer())
    entry = model.entry(words(7))[0]
    assert entry.point.dtype == torch.float32
    assert next(network.parameters()).dtype == torch.bfloat16
    network.is_quantized = True
    with pytest.raises(UnsupportedModelError, match="quantized"):
        model.entry(words(7))


def test_an_encoder_decoder_is_asked_for_its_encoder_alone():
    model = load(build("t5", EVERY["t5"]), word_tokenizer())
    with pytest.raises(UnsupportedModelError, match="encoder only"):
        model.entry(words(7), words(5))
