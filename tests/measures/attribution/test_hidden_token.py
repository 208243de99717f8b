"""Hidden Token Attribution against whole Jacobians that torch and finite differences give of the untouched model."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch.func import jacrev
from torch.nn.functional import rms_norm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import identiformer as idf
from identiformer.errors import InputError
from identiformer.readings import summarize_attribution
from identiformer.support.tiny_models import tiny_model, tiny_tokenizer, tiny_words
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words

TEXT = words(6)
EVERY = {**SERVED, **ENCODER_DECODERS}
KINDS = ("bert", "gpt2", "llama", "t5", "albert")  # norms behind, norms before and causal, grouped and gated, no bias, shared
NORMS = {
    "frobenius": lambda blocks: blocks.norm(dim=(-2, -1)),
    "spectral": lambda blocks: torch.linalg.matrix_norm(blocks, 2),
    "summed": lambda blocks: blocks.sum(-2).norm(dim=-1),
}


def network_of(family: str):
    """A tiny model with norms that weigh features differently, or else the sum behind them would not depend on the input."""
    network = build(family, EVERY[family])
    generator = torch.Generator().manual_seed(5)
    for name, parameter in network.named_parameters():
        if "norm" in name.lower() or ".ln_" in name or name.startswith("ln_"):
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return network


def runner(network):
    """All hidden states as a function of token embeddings, by the model's own door for them; and those of the text."""
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
    """Some parts of models compute in float32 always, which differences do not survive."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim, **_: softmax(x, dim=dim))
    monkeypatch.setattr(LlamaRMSNorm, "forward", lambda norm, x: rms_norm(x, x.shape[-1:], norm.weight, norm.variance_epsilon))


def shares(norms: torch.Tensor) -> np.ndarray:
    return (norms / norms.sum(-1, keepdim=True)).numpy()


@pytest.mark.parametrize("family", KINDS)
def test_exact_contributions_are_those_of_the_whole_jacobian(family):
    network = network_of(family)
    model = idf.load(network, word_tokenizer())
    blocks = blocks_by_torch(network)
    for norm, norm_of in NORMS.items():
        found = idf.token_attribution(model, TEXT, exact=True, norm=norm)
        np.testing.assert_allclose(found.contribution, shares(norm_of(blocks)), rtol=1e-5, atol=1e-9)
        assert (found.error == 0).all()
        assert (found.low == found.contribution).all()
        assert found.main_contributor_certain.all()


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_exact_contributions_are_those_of_finite_differences(family, float64_throughout):
    network = network_of(family)
    model = idf.load(network.double(), word_tokenizer())
    blocks = blocks_by_differences(network)
    for norm, norm_of in NORMS.items():
        found = idf.token_attribution(model, TEXT, exact=True, norm=norm)
        np.testing.assert_allclose(found.contribution, shares(norm_of(blocks)), rtol=1e-5, atol=1e-8)


OWN_WAYS = {
    "jamba": "its first block does not attend",
    "zamba": "later layers are fed the embeddings anew",
    "gemma4_text": "each layer is fed vectors made of the embeddings",
    "recurrent_gemma": "a function has its own gradient, and states are kept on modules",
    "bloom": "a function has its own gradient",
    "xlnet": "positions are the first axis, and matrices stand in the attention itself",
}


@pytest.mark.parametrize("family", OWN_WAYS)
def test_embeddings_are_followed_wherever_they_go(family):
    """Moved by hand in an untouched copy: as the whole Jacobian of finite differences, so the contributions."""
    network = tiny_model(family)
    untouched = copy.deepcopy(network).double()
    for config in (untouched.config, getattr(untouched, "text_config", untouched.config)):
        config._experts_implementation_internal = "eager"
    model = idf.load(network, tiny_tokenizer())
    text = tiny_words(3)
    found = idf.token_attribution(model, text, exact=True, layers=[len(model.input_function(text)[0].widths)])
    inputs = {"input_ids": torch.tensor([model.tokens(text).ids])}

    @torch.no_grad()
    def states(change):
        hook = untouched.get_input_embeddings().register_forward_hook(lambda _, __, given: given + change.view_as(given))
        try:
            return untouched(**inputs, output_hidden_states=True).hidden_states[-1][0]
        finally:
            hook.remove()

    positions, width = 5, untouched.get_input_embeddings().weight.shape[1]
    step, columns = 1e-3, []
    for unit in torch.eye(positions * width, dtype=torch.float64).view(-1, positions, width):
        columns.append((states(step * unit) - states(-step * unit)) / (2 * step))
    blocks = torch.stack(columns, -1).unflatten(-1, (positions, width)).movedim(-2, 1)
    np.testing.assert_allclose(found.contribution[0], shares(NORMS["frobenius"](blocks)), rtol=0.02, atol=1e-4)
    leaves = (value for module in network.modules() for value in vars(module).values())
    assert not any(isinstance(value, torch.Tensor) and value.grad_fn is not None for value in leaves)


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
def test_forward_and_reverse_give_the_same(family, norm, monkeypatch):
    model = idf.load(network_of(family), word_tokenizer())
    directions = {}
    for way in (True, False):
        monkeypatch.setattr("identiformer.models.derivatives.jacobian_norms._reverse_is_cheaper", lambda *_, way=way: way)
        directions[way] = idf.token_attribution(model, TEXT, exact=True, norm=norm, targets=[1, 3], layers=[2])
    np.testing.assert_allclose(directions[True].contribution, directions[False].contribution, rtol=1e-5)


def test_few_targets_go_in_reverse_and_all_of_them_forward(monkeypatch):
    model = idf.load(network_of("bert"), word_tokenizer())

    def refuse(*_, **__):
        raise AssertionError("forward")

    monkeypatch.setattr("identiformer.models.derivatives.jacobian_norms.find_pushforward", refuse)
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
    found = idf.token_attribution(model, TEXT, exact=True, input_site="after")
    np.testing.assert_allclose(found.contribution, expected, rtol=1e-5)
    assert not np.allclose(found.contribution, idf.token_attribution(model, TEXT, exact=True).contribution, rtol=1e-3)


def test_what_heads_give_is_attributed_too():
    network = network_of("bert")
    model = idf.load(network, word_tokenizer())
    seen = []
    double = copy.deepcopy(network).double()
    double.set_attn_implementation("eager")
    for layer in double.encoder.layer:
        layer.attention.output.dense.register_forward_pre_hook(lambda _, given: seen.append(given[0][0]))
    ids = torch.tensor([word_tokenizer()(TEXT)["input_ids"]])

    def run(rows):
        seen.clear()
        double(inputs_embeds=rows[None])
        return torch.stack(seen).unflatten(-1, (4, 8)).transpose(1, 2)

    blocks = jacrev(run)(double.get_input_embeddings()(ids)[0].detach()).detach()  # layer head target width source width
    expected = shares(blocks.permute(0, 1, 2, 4, 3, 5).norm(dim=(-2, -1)))
    found = idf.token_attribution(model, TEXT, exact=True, heads=True)
    np.testing.assert_allclose(found.head_contribution, expected, rtol=1e-5)
    assert (found.head_error < 1e-12).all()
    attention = idf.effective_attention(model.trace(TEXT))
    for name in ("raw", "effective"):
        row = found.head_contribution.values[1, 2, 3], attention[name].values[1, 2, 3]
        assert float(found[f"{name}_agreement"].values[1, 2, 3]) == pytest.approx(np.corrcoef(*row)[0, 1])
    with pytest.raises(InputError, match="Frobenius"):
        idf.token_attribution(model, TEXT, heads=True, norm="spectral")


def test_an_image_is_attributed_to_its_patches():
    settings = {
        key: SERVED["bert"][key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    }
    network = build("vit", {**settings, "image_size": 12, "patch_size": 4})
    model = idf.load(network)
    pixels = torch.randn(3, 12, 12)
    found = idf.token_attribution(model, pixels, exact=True)
    assert found.source_token.values.tolist() == ["[CLS]", *(f"{row},{column}" for row in range(3) for column in range(3))]
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
    np.testing.assert_allclose(found.contribution, expected, rtol=1e-5)
    assert model.trace(pixels).stack().weights.shape == (2, 4, 10, 10)
    with pytest.raises(InputError, match="channel height width"):
        idf.token_attribution(model, "a text")
    with pytest.raises(InputError, match="channel height width"):
        idf.token_attribution(model, pixels[0])


@pytest.fixture(scope="module")
def exact(minilm):
    return idf.token_attribution(minilm, "He said that the pie was his.", exact=True)


def test_probes_come_close_on_a_real_model(minilm, exact):
    found = idf.token_attribution(minilm, "He said that the pie was his.", seed=3)
    missed = 0.5 * abs(found.contribution - exact.contribution).sum("source")
    assert float(missed.median()) < 0.02
    assert float(missed.quantile(0.99)) < 0.05
    inside = (found.low <= exact.contribution) & (exact.contribution <= found.high)
    assert 0.88 < float(inside.mean()) < 0.99  # one text; benchmarks hold 93 to 97% over many
    assert (found.directions == 16).all()
    sure = found.main_contributor_certain
    assert float((found.main_contributor == exact.main_contributor).where(sure).mean()) > 0.95


def test_the_same_seed_gives_the_same_probes_whatever_goes_at_once(minilm, monkeypatch):
    first = idf.token_attribution(minilm, "He said.", seed=4)
    monkeypatch.setattr("identiformer.models.derivatives.jacobian_norms.MOST_AT_ONCE", 5)
    second = idf.token_attribution(minilm, "He said.", seed=4)
    np.testing.assert_allclose(first.contribution, second.contribution, rtol=1e-6, atol=1e-9)
    other = idf.token_attribution(minilm, "He said.", seed=5)
    assert not np.allclose(first.contribution, other.contribution, rtol=1e-4)


def test_tolerance_adds_probes_only_where_they_are_needed(minilm, exact):
    found = idf.token_attribution(minilm, "He said that the pie was his.", tolerance=0.012)
    assert (found.distribution_error <= 0.012).all()
    assert found.main_contributor_certain.all()
    assert (found.main_contributor == exact.main_contributor).all()
    missed = 0.5 * abs(found.contribution - exact.contribution).sum("source")
    assert float(missed.mean()) < 0.012
    assert found.directions.min() < found.directions.max() <= 384
    loose = idf.token_attribution(minilm, "He said that the pie was his.", tolerance=0.9, directions=4)
    assert loose.directions.sum() < found.directions.sum()


def test_memory_is_bounded_by_what_goes_at_once(minilm):
    small = idf.token_attribution(minilm, "He said.", memory=24 * 2**20)
    np.testing.assert_allclose(small.contribution, idf.token_attribution(minilm, "He said.").contribution, rtol=1e-5)
    with pytest.raises(InputError, match=r"at least .* MiB"):
        idf.token_attribution(minilm, "He said.", memory=2**20)


def test_sums_over_sets_of_sources(minilm):
    found = idf.token_attribution(minilm, "He said unbelievably.", "She did.", sets="[SEP]", group_by="segment")
    tokens = found.source_token.values
    separators = [place for place, token in enumerate(tokens) if token == "[SEP]"]
    summed = found.contribution.isel(source=separators).sum("source")
    np.testing.assert_allclose(found.set_contribution.sel(set="[SEP]"), summed)
    segments = found.set_contribution.sel(set=["first text", "second text"])
    np.testing.assert_allclose(segments.sum("set"), 1)
    second = found.contribution.isel(source=found.source_segment.values == 1).sum("source")
    np.testing.assert_allclose(segments.sel(set="second text"), second)
    words_of = idf.token_attribution(minilm, "He said unbelievably.", group_by="word")["set"].values.tolist()
    assert words_of == ["[CLS] 0", "he 1", "said 2", "unbelievably 3", ". 7", "[SEP] 8"] or "unbelievably 3" in words_of
    tags = ["x", "PRP", "VBD", *["RB"] * (len(tokens) - 3)]
    tagged = idf.token_attribution(minilm, "He said unbelievably.", "She did.", group_by=tags)
    assert tagged["set"].values.tolist() == ["x", "PRP", "VBD", "RB"]
    with pytest.raises(InputError, match="a label for each"):
        idf.token_attribution(minilm, "He said.", group_by=["a"])


def test_a_selection_is_part_of_the_whole(minilm):
    whole = idf.token_attribution(minilm, "He said that.")
    part = idf.token_attribution(minilm, "He said that.", layers=[2, 5], targets=[3, 0])
    twice = idf.token_attribution(minilm, "He said that.", layers=[5, 2, 5], targets=[3, 0])
    np.testing.assert_allclose(twice.contribution[[1, 2]], part.contribution)
    np.testing.assert_allclose(twice.contribution[0], twice.contribution[2])
    # Errors, and so the correction of the root's bias, are pooled over what is asked.
    np.testing.assert_allclose(part.contribution, whole.contribution.sel(layer=[2, 5], target=[3, 0]), rtol=1e-3)
    np.testing.assert_allclose(part.self_contribution, whole.self_contribution.sel(layer=[2, 5], target=[3, 0]), rtol=1e-3)
    assert float(whole.self_contribution.sel(layer=1, target=2)) == float(whole.contribution.sel(layer=1, target=2, source=2))


def test_a_causal_model_takes_nothing_from_what_comes_later():
    model = idf.load(network_of("llama"), word_tokenizer())
    found = idf.token_attribution(model, TEXT).contribution.values
    assert (found[:, ~np.tri(found.shape[1], dtype=bool)] == 0).all()
    np.testing.assert_allclose(found.sum(-1), 1)


def test_a_result_is_kept_on_disk(minilm, tmp_path):
    found = idf.token_attribution(minilm, "He said.", group_by="special", heads=True)
    idf.save_result(found, tmp_path / "found.zarr")
    assert idf.open_result(tmp_path / "found.zarr").identical(found)


def test_bad_input(minilm):
    for options, message in (
        ({"targets": [99]}, "a target from 0 to 4, got 99"),
        ({"layers": [0]}, "a layer from 1 to 6, got 0"),
        ({"directions": 385}, "2 to 384 directions.*exact=True"),
        ({"directions": 1}, "2 to 384 directions"),
        ({"norm": "nuclear"}, "frobenius, spectral, summed"),
        ({"input_site": "between"}, "'before' or 'after'"),
        ({"tolerance": 0.0}, "between 0 and 1"),
        ({"tolerance": 0.1, "exact": True}, "got 0.1 with exact=True"),
        ({"tolerance": float("nan")}, "between 0 and 1"),
        ({"tolerance": 1.0}, "between 0 and 1"),
        ({"tolerance": 1e-300}, "tolerance of 1e-06 or more.*got 1e-300; use exact=True"),
        ({"sets": "zebra"}, "zebra"),
    ):
        with pytest.raises(InputError, match=message):
            idf.token_attribution(minilm, "He said.", **options)


def test_a_sum_that_does_not_depend_on_the_input_is_refused():
    model = idf.load(build("bert", EVERY["bert"]), word_tokenizer())
    with pytest.raises(InputError, match="layer 1 does not depend on the input"):
        idf.token_attribution(model, TEXT, norm="summed")


def test_derivatives_that_are_no_numbers_are_refused_with_their_layer():
    network = network_of("bert")
    model = idf.load(network, word_tokenizer())
    norm = network.encoder.layer[1].output.LayerNorm
    norm.forward = lambda x: torch.nn.LayerNorm.forward(norm, x) + (x - x).sqrt()  # finite, with no finite slope
    with pytest.raises(InputError, match=r"derivatives.*layer 2"):
        idf.token_attribution(model, TEXT)


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"norm": "spectral"}, {"norm": "summed"}, {"targets": [2]}])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_hidden_vector_that_does_not_depend_on_the_input_is_named(family, options):
    network = network_of(family)
    model = idf.load(network, word_tokenizer())
    last = network.encoder.layer[-1].output.LayerNorm if family == "bert" else network.ln_f
    torch.nn.init.zeros_(last.weight)
    layer = 2
    with pytest.raises(InputError, match=rf"depend on the input.*layer {layer}|layer {layer} does not depend on the input"):
        idf.token_attribution(model, TEXT, layers=[layer], **options)


def test_a_head_that_does_not_depend_on_the_input_is_named_and_left_undefined():
    network = network_of("bert")
    with torch.no_grad():
        network.encoder.layer[1].attention.self.value.weight[8:16] = 0  # of the second of four heads
    model = idf.load(network, word_tokenizer())
    with pytest.warns(UserWarning, match="do not depend on the input, the first at layer 2, head 1, position 0"):
        found = idf.token_attribution(model, TEXT, heads=True)
    undefined = np.isnan(found.head_contribution.values).all((-2, -1))
    assert undefined.tolist() == [[False] * 4, [False, True, False, False]]
    assert np.isnan(found.head_contribution.values).any((-2, -1)).tolist() == undefined.tolist()
    assert not np.isnan(found.contribution).any()


def test_a_summary_of_undefined_contributions_is_rejected():
    result = idf.token_attribution(idf.load(network_of("bert"), word_tokenizer()), TEXT)
    broken = result.copy(deep=True)
    broken.contribution[1, 3] = np.nan
    with pytest.raises(InputError, match="NaN at layer 2, target 3"):
        summarize_attribution(broken)
