"""The maps that a page computes are those of the library, to one color step."""

import pytest

import identiformer as idf
from identiformer.page.layer_maps import TOLERANCE, pack_layer
from tests.models.families import SERVED, build, word_tokenizer, words
from tests.page.packed_layer import PackedLayer

TEXT = "The islanders wrote to the minister, and the minister wrote back. " * 5


def check(trace, layer, heads):
    truth = idf.effective_attention(trace, layers=[layer])
    record = trace.layer(layer).recorded()
    contribution = idf.equations.contributions(record.weights.double(), record.values.double(), record.projection)
    truth = truth.assign(contribution=(truth.raw.dims, contribution[None].numpy()))
    packed = PackedLayer(pack_layer(trace.layer(layer)))
    queries, keys = truth.sizes["query"], truth.sizes["key"]
    for head in heads:
        computed = packed.maps(head, queries, keys)
        for kind, share in {**TOLERANCE, "null": TOLERANCE["raw"] + TOLERANCE["effective"]}.items():
            exact = truth[kind].sel(layer=layer, head=head).values
            scale = max(abs(exact).max(), abs(truth["raw"].sel(layer=layer, head=head).values).max() if kind == "null" else 0)
            assert abs(computed[kind] - exact).max() <= share * scale * 1.001 + 1e-12, (kind, head)
    return packed


@pytest.mark.parametrize("layer", [1, 5])
def test_an_encoder(minilm, layer):
    packed = check(minilm.trace(TEXT), layer, [0, 7, 11])
    assert set(packed.header["arrays"]) == {"query", "key", "basis", "gram"}
    assert max(packed.header["arrays"]["query"]["bits"]) <= 14


@pytest.mark.slow
def test_causal_grouped_heads_of_a_real_model(smollm2):
    packed = check(smollm2.trace(TEXT), 4, [0, 4, 8])
    assert len(packed.header["arrays"]["key"]["bits"]) == 3
    assert len(packed.header["arrays"]["query"]["bits"]) == 9


def test_causal_grouped_heads():
    packed = check(idf.load(build("llama", SERVED["llama"]), word_tokenizer()).trace(words(40)), 2, [0, 1, 3])
    assert len(packed.header["arrays"]["key"]["bits"]) == 2
    assert len(packed.header["arrays"]["query"]["bits"]) == 4


@pytest.mark.parametrize("family", ["gpt_oss", "gemma2", "mistral", "modernbert"])
def test_sinks_caps_and_windows(family):
    trace = idf.load(build(family, SERVED[family]), word_tokenizer()).trace(words(24))
    check(trace, 1, range(trace.layer(1).heads))


def test_only_some_rows_of_large_maps_are_compared(minilm, monkeypatch):
    monkeypatch.setattr("identiformer.page.layer_maps.MOST_ENTRIES", 100)
    monkeypatch.setattr("identiformer.page.layer_maps.SOME_ROWS", 12)
    trace = minilm.trace(TEXT)
    packed = PackedLayer(pack_layer(trace.layer(3)))
    truth = idf.effective_attention(trace, layers=[3], heads=[5]).isel(layer=0, head=0)
    computed = packed.maps(5, truth.sizes["query"], truth.sizes["key"])
    for kind in ("raw", "effective"):
        assert abs(computed[kind] - truth[kind].values).max() <= 3 * TOLERANCE[kind] * abs(truth[kind].values).max()


def test_a_factored_layer_has_effective_attention_only(minilm):
    trace = minilm.trace(TEXT, form="factored", raw_norms=True)
    packed = PackedLayer(pack_layer(trace.layer(2)))
    assert set(packed.header["arrays"]) == {"basis", "coordinates"}
    assert set(packed.header["error"]) == {"effective"}
