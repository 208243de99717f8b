"""Exact Hidden Token Attribution against whole Jacobians of the untouched model, by torch and by finite differences."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch.func import jacrev
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import rms_norm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import identiformer as idf
from identiformer.errors import InputError
from identiformer.support.tiny_models import tiny_model, tiny_tokenizer, tiny_words
from tests.measures.attribution.networks import TEXT, network_of
from tests.models.families import SERVED, build, each, word_tokenizer

FAMILIES = ("bert", "gpt2", "llama", "t5", "albert")  # norms after, norms before and causal, grouped and gated, no bias, shared
NORMS = {
    "frobenius": lambda blocks: blocks.norm(dim=(-2, -1)),
    "spectral": lambda blocks: torch.linalg.matrix_norm(blocks, 2),
    "summed": lambda blocks: blocks.sum(-2).norm(dim=-1),
}


def runner(network):
    """Return all hidden states as a function of token embeddings, by `inputs_embeds`, and the embeddings of the text."""
    network = copy.deepcopy(network).double()
    network.set_attn_implementation("eager")
    network = network.get_encoder() if network.config.is_encoder_decoder else network
    ids = torch.tensor([word_tokenizer()(TEXT)["input_ids"]])
    embeddings = network.get_input_embeddings()(ids)[0].detach()

    def run(rows):
        result = network(inputs_embeds=rows[None], output_hidden_states=True)
        return torch.stack([state[0] for state in result.hidden_states[1:]])

    return run, embeddings


def blocks_by_torch(network) -> torch.Tensor:
    run, embeddings = runner(network)
    with sdpa_kernel(SDPBackend.MATH):  # the others do not differentiate position biases
        return jacrev(run)(embeddings).permute(0, 1, 3, 2, 4).detach()


@torch.no_grad()
def blocks_by_differences(network, step: float = 1e-5) -> torch.Tensor:
    run, embeddings = runner(network)
    positions, width = embeddings.shape
    columns = []
    for source, component in itertools.product(range(positions), range(width)):
        change = torch.zeros_like(embeddings)
        change[source, component] = step
        columns.append((run(embeddings + change) - run(embeddings - change)) / (2 * step))
    return torch.stack(columns, -1).unflatten(-1, (positions, width)).movedim(-2, 2)


@pytest.fixture
def float64_throughout(monkeypatch):
    """Remove the casts to float32 in some models, which finite differences do not survive."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim, **_: softmax(x, dim=dim))
    monkeypatch.setattr(LlamaRMSNorm, "forward", lambda norm, x: rms_norm(x, x.shape[-1:], norm.weight, norm.variance_epsilon))


def shares(norms: torch.Tensor) -> np.ndarray:
    return (norms / norms.sum(-1, keepdim=True)).numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_exact_contributions_match_the_whole_jacobian(family):
    network = network_of(family)
    model = idf.load(network, word_tokenizer())
    blocks = blocks_by_torch(network)
    for norm, norm_of in NORMS.items():
        actual = idf.token_attribution(model, TEXT, exact=True, norm=norm)
        np.testing.assert_allclose(actual.contribution, shares(norm_of(blocks)), rtol=1e-5, atol=1e-9)
        assert (actual.error == 0).all()
        assert (actual.low == actual.contribution).all()
        assert actual.main_contributor_certain.all()


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_exact_contributions_match_finite_differences(family, float64_throughout):
    network = network_of(family)
    model = idf.load(network.double(), word_tokenizer())
    blocks = blocks_by_differences(network)
    for norm, norm_of in NORMS.items():
        actual = idf.token_attribution(model, TEXT, exact=True, norm=norm)
        np.testing.assert_allclose(actual.contribution, shares(norm_of(blocks)), rtol=1e-5, atol=1e-8)


UNUSUAL = {
    "jamba": "its first block does not attend",
    "zamba": "later layers are fed the embeddings again",
    "gemma4_text": "each layer is fed vectors computed from the embeddings",
    "recurrent_gemma": "a function defines its own gradient, and modules keep states",
    "bloom": "a function defines its own gradient",
    "xlnet": "positions are the first axis, and the attention module itself holds the matrices",
}


@pytest.mark.parametrize("family", each(UNUSUAL, {"gemma4_text"}))  # which tests of verification differentiate too
def test_attribution_follows_every_path_of_the_embeddings(family):
    """Contributions match the whole Jacobian by finite differences of an untouched copy."""
    network = tiny_model(family)
    untouched = copy.deepcopy(network).double()
    for config in (untouched.config, getattr(untouched, "text_config", untouched.config)):
        config._experts_implementation_internal = "eager"
    model = idf.load(network, tiny_tokenizer())
    text = tiny_words(3)
    actual = idf.token_attribution(model, text, exact=True, layers=[len(model.input_function(text)[0].widths)])
    ids = torch.tensor([model.tokens(text).ids])
    positions, width = 5, untouched.get_input_embeddings().weight.shape[1]

    @torch.no_grad()
    def states(changes):
        def add(_, __, inputs):
            return inputs + (changes if inputs.shape == changes.shape else changes.transpose(0, 1))  # xlnet: positions first

        hook = untouched.get_input_embeddings().register_forward_hook(add)
        try:
            return untouched(input_ids=ids.expand(len(changes), -1), output_hidden_states=True).hidden_states[-1]
        finally:
            hook.remove()

    step, units = 1e-3, torch.eye(positions * width, dtype=torch.float64).view(-1, positions, width)
    columns = (states(step * units) - states(-step * units)) / (2 * step)
    blocks = columns.movedim(0, -1).unflatten(-1, (positions, width)).movedim(-2, 1)
    np.testing.assert_allclose(actual.contribution[0], shares(NORMS["frobenius"](blocks)), rtol=0.02, atol=1e-4)
    leaves = (value for module in network.modules() for value in vars(module).values())
    assert not any(isinstance(value, torch.Tensor) and value.grad_fn is not None for value in leaves)


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
def test_forward_and_reverse_mode_agree(family, norm, monkeypatch):
    model = idf.load(network_of(family), word_tokenizer())
    results = {}
    for reverse in (True, False):
        monkeypatch.setattr(
            "identiformer.models.derivatives.jacobian_norms._reverse_is_cheaper", lambda *_, reverse=reverse: reverse
        )
        results[reverse] = idf.token_attribution(model, TEXT, exact=True, norm=norm, targets=[1, 3], layers=[2])
    np.testing.assert_allclose(results[True].contribution, results[False].contribution, rtol=1e-5)


def test_few_targets_use_reverse_mode_and_all_of_them_forward_mode(monkeypatch):
    model = idf.load(network_of("bert"), word_tokenizer())

    def fail(*_, **__):
        raise AssertionError("forward")

    monkeypatch.setattr("identiformer.models.derivatives.jacobian_norms.find_pushforward", fail)
    idf.token_attribution(model, TEXT, exact=True, targets=[0], layers=[1, 2])
    with pytest.raises(AssertionError, match="forward"):
        idf.token_attribution(model, TEXT, exact=True)


def test_the_input_after_the_embedding_norm():
    network = network_of("bert")
    model = idf.load(network, word_tokenizer())
    after = model.input_function(TEXT, input_site="after")[0].x.double()
    double = copy.deepcopy(network).double()
    double.set_attn_implementation("eager")

    def run(rows):
        states = [rows[None]]
        for layer in double.encoder.layer:
            states.append(layer(states[-1]))
        return torch.cat(states[1:])

    expected = shares(jacrev(run)(after).permute(0, 1, 3, 2, 4).detach().norm(dim=(-2, -1)))
    actual = idf.token_attribution(model, TEXT, exact=True, input_site="after")
    np.testing.assert_allclose(actual.contribution, expected, rtol=1e-5)
    assert not np.allclose(actual.contribution, idf.token_attribution(model, TEXT, exact=True).contribution, rtol=1e-3)


def test_head_outputs_are_attributed():
    network = network_of("bert")
    model = idf.load(network, word_tokenizer())
    head_outputs = []
    double = copy.deepcopy(network).double()
    double.set_attn_implementation("eager")
    for layer in double.encoder.layer:
        layer.attention.output.dense.register_forward_pre_hook(lambda _, inputs: head_outputs.append(inputs[0][0]))
    ids = torch.tensor([word_tokenizer()(TEXT)["input_ids"]])

    def run(rows):
        head_outputs.clear()
        double(inputs_embeds=rows[None])
        return torch.stack(head_outputs).unflatten(-1, (4, 8)).transpose(1, 2)

    blocks = jacrev(run)(double.get_input_embeddings()(ids)[0].detach()).detach()  # layer head target width source width
    expected = shares(blocks.permute(0, 1, 2, 4, 3, 5).norm(dim=(-2, -1)))
    actual = idf.token_attribution(model, TEXT, exact=True, heads=True)
    np.testing.assert_allclose(actual.head_contribution, expected, rtol=1e-5)
    assert (actual.head_error < 1e-12).all()
    attention = idf.effective_attention(model.trace(TEXT))
    for name in ("raw", "effective"):
        row = actual.head_contribution.values[1, 2, 3], attention[name].values[1, 2, 3]
        assert float(actual[f"{name}_agreement"].values[1, 2, 3]) == pytest.approx(np.corrcoef(*row)[0, 1])
    with pytest.raises(InputError, match="Frobenius"):
        idf.token_attribution(model, TEXT, heads=True, norm="spectral")


def test_an_image_is_attributed_to_its_patches():
    settings = {
        key: SERVED["bert"][key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    }
    network = build("vit", {**settings, "image_size": 12, "patch_size": 4})
    model = idf.load(network)
    pixels = torch.randn(3, 12, 12)
    actual = idf.token_attribution(model, pixels, exact=True)
    assert actual.source_token.values.tolist() == ["[CLS]", *(f"{row},{column}" for row in range(3) for column in range(3))]
    double = copy.deepcopy(network).double()
    double.set_attn_implementation("eager")
    inputs = double.embeddings(pixels[None].double()).detach()[0]
    blocks = list(double.layers if hasattr(double, "layers") else double.encoder.layer)

    def run(rows):
        states = [rows[None]]
        for block in blocks:
            states.append(block(states[-1]))
        return torch.cat(states[1:])

    expected = shares(jacrev(run)(inputs).permute(0, 1, 3, 2, 4).detach().norm(dim=(-2, -1)))
    np.testing.assert_allclose(actual.contribution, expected, rtol=1e-5)
    assert model.trace(pixels).stack().weights.shape == (2, 4, 10, 10)
    with pytest.raises(InputError, match="channel height width"):
        idf.token_attribution(model, "a text")
    with pytest.raises(InputError, match="channel height width"):
        idf.token_attribution(model, pixels[0])
