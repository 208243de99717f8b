"""Value zeroing against the untouched model with hooks that zero the output of its value projections."""

import copy

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError, UnsupportedModelError
from tests.models.families import SERVED, build, word_tokenizer, words
from tests.models.perturbed import EVERY, MIXTURES, network_of

TEXT = words(6)
FINAL_NORM = {  # the norm between the last layer and the last hidden state
    "bert": None, "albert": None, "distilbert": None, "bart": None, "gpt2": "ln_f", "opt": "decoder.final_layer_norm",
    "llama": "norm", "mistral": "norm", "gemma2": "norm", "gpt_oss": "norm", "t5": "final_layer_norm",
}  # fmt: skip


class Oracle:
    """The output of each layer of the model, with one row of one call of a value projection zeroed."""

    def __init__(self, network, family: str):
        network = copy.deepcopy(network).eval()
        network.set_attn_implementation("eager")
        self.network = network.get_encoder() if network.config.is_encoder_decoder else network
        self.zero: tuple[int, int] | None = None
        self.calls = 0
        for name, module in self.network.named_modules():
            if name.endswith((".value", ".v_proj", ".v_lin", "SelfAttention.v", ".c_attn")):
                module.register_forward_hook(self._zero)
        self.before_norm: list[torch.Tensor] = []
        norm = FINAL_NORM[family]
        if norm is not None:
            module = self.network.get_submodule(norm)
            module.register_forward_pre_hook(lambda _, inputs: self.before_norm.append(inputs[0][0]))

    def _zero(self, _, inputs, result):
        self.calls += 1
        if self.zero is not None and self.calls == self.zero[0]:
            width = inputs[0].shape[-1]
            fused = result.shape[-1] == 3 * width  # GPT-2 computes queries, keys and values at once
            result = result.clone()
            result[:, self.zero[1], 2 * width if fused else 0 :] = 0
        return result

    @torch.no_grad()
    def states(self, layer: int = 0, source: int = 0) -> list[torch.Tensor]:
        self.zero, self.calls = (layer, source), 0
        self.before_norm.clear()
        ids = torch.tensor([word_tokenizer()(TEXT)["input_ids"]])
        hidden = [state[0] for state in self.network(ids, output_hidden_states=True).hidden_states[1:]]
        assert self.calls == len(hidden)
        return [*hidden[:-1], *(self.before_norm or hidden[-1:])]

    def effect(self, layer: int) -> torch.Tensor:
        unchanged = self.states()[layer - 1]
        others = [self.states(layer, source)[layer - 1] for source in range(len(unchanged))]
        return torch.stack([1 - torch.cosine_similarity(unchanged, other, dim=-1) for other in others], -1)


@pytest.mark.parametrize("family", FINAL_NORM)
def test_effects_match_zeroing_the_value_projection(family):
    network = network_of(family, **({"num_hidden_layers": 3} if family == "albert" else {}))
    actual = idf.value_zeroing(idf.load(network, word_tokenizer()), TEXT)
    oracle = Oracle(network, family)
    expected = torch.stack([oracle.effect(layer) for layer in actual.layer.values])
    assert float(expected.amax((1, 2)).min()) > 1e-3
    np.testing.assert_allclose(actual.effect, expected, rtol=1e-5, atol=1e-6 if family in MIXTURES else 1e-9)


@pytest.mark.parametrize("family", sorted(EVERY))
def test_visible_sources_have_an_effect_and_others_none(family):
    model = idf.load(network_of(family), word_tokenizer())
    actual = idf.value_zeroing(model, words(10))
    trace = model.trace(words(10))
    for layer in actual.layer.values.tolist():
        visible = trace.layer(layer).visible.dense().numpy()
        effect = actual.effect.sel(layer=layer).values
        assert (effect[~visible] == 0).all()
        assert (effect[visible] > 0).all()


@pytest.mark.parametrize("family", ["bert", "llama", "mistral"])
def test_agreement_is_the_correlation_over_visible_sources(family):
    model = idf.load(network_of(family), word_tokenizer())
    text = words(20)  # more tokens than a head is wide
    actual = idf.value_zeroing(model, text)
    trace = model.trace(text)
    maps = idf.effective_attention(trace)
    for name in ("raw", "effective"):
        attention = np.abs(maps[name].values).mean(1)
        for layer, target in ((1, 2), (2, 5), (2, 21)):
            visible = trace.layer(layer).visible.dense()[target].numpy()
            rows = (array[layer - 1, target, visible] for array in (actual.effect.values, attention))
            expected = np.corrcoef(*rows)[0, 1]
            assert float(actual[f"{name}_agreement"].sel(layer=layer, target=target)) == pytest.approx(expected)
    if family != "bert":
        assert np.isnan(actual.raw_agreement.sel(target=0)).all()  # it sees only itself
    if family != "mistral":  # its window is narrower than a head
        assert float(abs(actual.raw_agreement - actual.effective_agreement).max()) > 0.01


def test_a_selection_equals_that_part_of_the_whole_whatever_the_batch_size(monkeypatch):
    model = idf.load(network_of("albert", num_hidden_layers=4), word_tokenizer())
    whole = idf.value_zeroing(model, TEXT)
    monkeypatch.setattr("identiformer.models.interventions.removal.TOKENS_AT_ONCE", 25)
    part = idf.value_zeroing(model, TEXT, layers=[4, 2, 4])
    for name in ("effect", "raw_agreement", "effective_agreement"):
        np.testing.assert_allclose(part[name], whole[name].sel(layer=[4, 2, 4]), rtol=1e-9)


def test_single_precision_gives_the_same():
    network = network_of("bert")
    double = idf.value_zeroing(idf.load(copy.deepcopy(network), word_tokenizer()), TEXT)
    single = idf.value_zeroing(idf.load(network.float(), word_tokenizer()), TEXT)
    np.testing.assert_allclose(single.effect, double.effect, rtol=1e-3)


def test_effective_attention_agrees_better_than_raw_attention(minilm, tmp_path):
    text = "The islanders wrote to the minister, and the minister wrote back. " * 3  # more tokens than a head is wide
    actual = idf.value_zeroing(minilm, text, "They did not agree.")
    deeper = actual.sel(layer=slice(2, None))
    assert float(deeper.effective_agreement.mean()) > float(deeper.raw_agreement.mean()) + 0.2
    assert actual.source_token.values[0] == "[CLS]"
    assert actual.source_special.values[0]
    idf.save_result(actual, tmp_path / "found.zarr")
    assert idf.open_result(tmp_path / "found.zarr").identical(actual)


def test_an_image_and_its_patches():
    sizes = {key: SERVED["bert"][key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
    network = build("vit", {**sizes, "image_size": 12, "patch_size": 4})
    actual = idf.value_zeroing(idf.load(network), torch.randn(3, 12, 12))
    assert actual.effect.shape == (2, 10, 10)
    assert actual.target_token.values[:2].tolist() == ["[CLS]", "0,0"]


def test_the_model_is_left_unchanged_even_after_an_error(monkeypatch):
    network = network_of("llama").train()
    model = idf.load(network, word_tokenizer())
    model.trace(TEXT)  # a first run of transformers leaves hooks of its own
    network.train()

    def state():
        hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules()]
        return hooks, network.config._attn_implementation, [module.training for module in network.modules()]

    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    before = state()
    idf.value_zeroing(model, TEXT)
    assert state() == before
    monkeypatch.setattr("identiformer.models.interventions.removal.cosine_distance", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        idf.value_zeroing(model, TEXT)
    assert state() == before
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())


def test_bad_input():
    model = idf.load(network_of("bert"), word_tokenizer())
    for text, layers, message in (
        (TEXT, [3], "a layer from 1 to 2, got 3"),
        (TEXT, [0], "a layer from 1 to 2, got 0"),
        (TEXT, [1.5], "integers from 1 to 2 to choose each layer"),
        (TEXT, [], "got none"),
        (words(70), None, "at most 64 tokens"),
        ("", None, "got an empty one"),
    ):
        with pytest.raises(InputError, match=message):
            idf.value_zeroing(model, text, layers=layers)
    assert idf.value_zeroing(model, words(70), truncate=True).sizes["source"] == 64


def test_unsupported_models_are_rejected():
    with pytest.raises(UnsupportedModelError, match="in its encoder only"):
        idf.value_zeroing(idf.load(network_of("bart"), word_tokenizer()), TEXT, TEXT)
    with pytest.raises(UnsupportedModelError, match="albert family has layers without exactly one attention"):
        idf.value_zeroing(idf.load(network_of("albert", inner_group_num=2), word_tokenizer()), TEXT)
    network = network_of("bert")
    model = idf.load(network, word_tokenizer())
    network.encoder.layer[1].output.LayerNorm.weight.data[0] = float("inf")
    with pytest.raises(InputError, match=r"finite hidden states.*layer 2"):
        idf.value_zeroing(model, TEXT)


def test_agreement_without_special_tokens():
    """Compare with NumPy's correlation over the columns that are not special tokens."""
    model = idf.load("minilm")
    words_only = idf.value_zeroing(model, "The baker carried his loaves over the river before dawn.", layers=[2], special=False)
    every = idf.value_zeroing(model, "The baker carried his loaves over the river before dawn.", layers=[2])
    trace = model.trace("The baker carried his loaves over the river before dawn.", form="weights")
    raw = trace.layer(2).weights.abs().mean(0).double().numpy()
    words = ~every.source_special.values
    expected = [np.corrcoef(every.effect.values[0, row, words], raw[row, words])[0, 1] for row in range(len(raw))]
    np.testing.assert_allclose(words_only.raw_agreement[0], expected, atol=1e-6)
    assert np.abs(words_only.raw_agreement - every.raw_agreement).max() > 0.1
