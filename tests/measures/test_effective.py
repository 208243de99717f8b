"""Effective attention of a trace: its Dataset, its selections, and what it rejects."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

import identiformer as idf
from identiformer.errors import InputError, MemoryBudgetError, ResultError
from identiformer.results.schema import VARIABLES
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module", params=["bert", "llama", "mistral", "gpt_oss"])
def model(request):
    return idf.load(build(request.param, SERVED[request.param]), word_tokenizer())


@pytest.fixture
def trace(model):
    return model.trace(words(24))


def test_dataset_matches_the_equations(trace):
    result = idf.effective_attention(trace)
    assert set(result.data_vars) == set(VARIABLES["effective_attention"])
    for layer in trace.stack().layers:
        one = result.sel(layer=layer.number)
        expected = idf.equations.effective_attention(layer.weights, layer.values, layer.visible, sink=layer.sink)
        np.testing.assert_array_equal(one.raw, layer.weights)
        np.testing.assert_allclose(one.effective, expected, atol=1e-6)
        np.testing.assert_allclose(one.null, layer.weights - expected, atol=1e-6)
        np.testing.assert_array_equal(one.nullity, layer.visible.counts - torch.from_numpy(one["rank"].values))
        mass = (one.null**2).sum("key") / (one.raw**2).sum("key")
        np.testing.assert_allclose(one.row_null_mass, mass, atol=1e-5)
        np.testing.assert_allclose(one.null_mass, mass.mean("query"), atol=1e-5)
        pooled = (one.null**2).sum(("query", "key")) / (one.raw**2).sum(("query", "key"))
        np.testing.assert_allclose(one.pooled_null_mass, pooled, atol=1e-5)
        np.testing.assert_allclose(one.raw_received, one.raw.mean("query"), atol=1e-6)
        np.testing.assert_allclose(one.effective_received, one.effective.mean("query"), atol=1e-5)
        rows = (one.nullity > 0).values[..., None] & layer.visible.dense().numpy()
        for head in range(layer.heads):
            pair = np.stack([one.raw.values[head][rows[head]], one.effective.values[head][rows[head]]])
            expected = np.corrcoef(pair)[0, 1] if rows[head].any() else 1.0
            assert float(one.correlation[head]) == pytest.approx(expected, abs=1e-3)
    assert list(result.query_token.values) == list(trace.tokens)


def test_selection_equals_subset_of_all(trace):
    whole = idf.effective_attention(trace)
    backwards = list(range(26))[::-1]
    for layers, heads, queries in (
        ([2], [3, 1], [20, 7]),
        ([2, 1], [3, 2, 1, 0], backwards),
        ([1, 2], [3, 2, 1, 0], backwards),
        ([1], [0, 1, 2, 3], [25]),
    ):
        part = idf.effective_attention(trace, layers=layers, heads=heads, queries=queries)
        expected = whole.sel(layer=layers, head=heads, query=queries)
        np.testing.assert_array_equal(whole.raw, idf.effective_attention(trace).raw)
        for name in ("raw", "effective", "null", "rank", "row_null_mass"):
            np.testing.assert_allclose(part[name], expected[name], atol=1e-6)


def test_raw_weights_share_memory_and_are_read_only(trace):
    result = idf.effective_attention(trace)
    with pytest.raises(ValueError, match="read-only"):
        result.raw.values[:] = 0
    first, own = result.raw.values[0], trace.layer(1)  # read-only arrays are fine to read
    again = idf.equations.effective_attention(first, own.values.numpy(), own.visible, sink=own.sink)
    np.testing.assert_allclose(again, result.effective.values[0], atol=1e-6)


def test_without_bias(trace):
    layer = trace.layer(1)
    values = layer.values - layer.value_bias[:, None]
    expected = idf.equations.effective_attention(layer.weights, values, layer.visible, sink=layer.sink)
    np.testing.assert_allclose(idf.effective_attention(trace, value_bias=False).effective[0], expected, atol=1e-6)


def test_values_without_bias_are_the_linear_map_alone():
    network = build("bert", SERVED["bert"])
    maps = network.encoder.layer[0].attention.self.value
    torch.nn.init.normal_(maps.bias, std=3.0)
    fed = []
    maps.register_forward_hook(lambda module, arguments, result: fed.append(arguments[0]))
    layer = idf.load(network, word_tokenizer()).trace(words(20)).layer(1)
    expected = (fed[-1][0] @ maps.weight.detach().mT).unflatten(-1, (4, 8)).transpose(0, 1)
    torch.testing.assert_close(layer.transmitted_values(value_bias=False), expected, atol=1e-5, rtol=0)
    assert not torch.allclose(layer.transmitted_values(), expected, atol=1e-1)


def test_matrices_beyond_the_budget(trace):
    trace = replace(trace, memory=1000)
    assert "raw" not in idf.effective_attention(trace)
    with pytest.raises(MemoryBudgetError, match="matrices=False"):
        idf.effective_attention(trace, matrices=True)


@pytest.mark.parametrize(
    "options", [{"layers": [0]}, {"layers": [3]}, {"heads": [4]}, {"queries": [99]}, {"kind": "cross"}, {"heads": []}]
)
def test_unknown_selection_is_rejected(trace, options):
    with pytest.raises(InputError, match="expected"):
        idf.effective_attention(trace, **options)


def test_factored_trace_has_the_same_summaries():
    model = idf.load(build("llama", SERVED["llama"]), word_tokenizer())
    recorded = idf.effective_attention(model.trace(words(40)))
    factored = idf.effective_attention(model.trace(words(40), form="factored", raw_norms=True))
    assert "raw" not in factored
    for name in ("effective", "rank", "null_mass", "correlation", "leverage", "effective_received"):
        np.testing.assert_allclose(factored[name], recorded[name], atol=2e-3)
    assert "correlation" not in idf.effective_attention(model.trace(words(40), form="factored"))
    with pytest.raises(InputError, match="form='weights'"):
        idf.effective_attention(model.trace(words(9), form="factored"), value_bias=False)


def test_projection_of_deficient_rank():
    """The output depends on less of head 1 than its values: T = VH has rank 3, and A⊥T = AT."""
    network = build("bert", SERVED["bert"])
    dense = network.encoder.layer[0].attention.output.dense
    with torch.no_grad():
        dense.weight[:, 8:16] = torch.randn(32, 3) @ torch.randn(3, 8)
    model = idf.load(network, word_tokenizer())
    for options in ({}, {"form": "factored"}):
        trace = model.trace(words(20), **options)
        result = idf.effective_attention(trace)
        assert result["rank"].sel(layer=1).max("query").values.tolist() == [8, 3, 8, 8]
    layer = model.trace(words(20)).layer(1)
    assert layer.lossy_heads == (1,)
    through = layer.values[1].double() @ layer.projection[1].double()
    effective = torch.from_numpy(idf.effective_attention(model.trace(words(20))).effective.values[0, 1]).double()
    torch.testing.assert_close(effective @ through, layer.weights[1].double() @ through, atol=1e-5, rtol=0)


def test_double_precision():
    network = build("bert", SERVED["bert"])
    single = idf.effective_attention(idf.load(network, word_tokenizer()).trace(words(20)))
    double = idf.effective_attention(idf.load(network.double(), word_tokenizer()).trace(words(20)))
    for name in ("raw", "effective", "null_mass"):
        np.testing.assert_allclose(double[name], single[name], atol=1e-5)


def test_saved_result_is_identical(trace, tmp_path):
    result = idf.effective_attention(trace)
    path = idf.save_result(result, tmp_path / "deep" / "result.zarr")
    assert idf.open_result(path).identical(result)
    idf.save_result(idf.effective_attention(trace, layers=[1]), path)
    assert idf.open_result(path).sizes["layer"] == 1
    assert [child.name for child in path.parent.iterdir()] == ["result.zarr"]


def test_invalid_result_is_rejected(trace, tmp_path):
    result = idf.effective_attention(trace)
    with pytest.raises(ResultError, match="missing"):
        idf.save_result(xr.Dataset(), tmp_path / "a")
    with pytest.raises(ResultError, match="no variable"):
        idf.save_result(result.assign(other=result["rank"]), tmp_path / "a")
    with pytest.raises(ResultError, match="'nullity' over"):
        idf.save_result(result.assign(nullity=result.nullity.transpose("head", "layer", "query")), tmp_path / "a")
    with pytest.raises(ResultError, match="schema version"):
        idf.save_result(result.assign_attrs(schema_version=99), tmp_path / "a")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ResultError, match="expected a folder with a result"):
        idf.open_result(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(ResultError, match="something else"):
        idf.save_result(result, tmp_path / "mine")
    path = idf.save_result(result, tmp_path / "b")
    described = (path / "zarr.json").read_text()
    (path / "zarr.json").write_text(described.replace('"schema_version": 3', '"schema_version": 7'))
    with pytest.raises(ResultError, match="schema version 3, got 7"):
        idf.open_result(path)
    (path / "zarr.json").write_text(described)
    (path / "raw" / "zarr.json").write_text("{")
    with pytest.raises(ResultError, match="damaged"):
        idf.open_result(path)


def test_provenance(trace):
    attributes = idf.effective_attention(trace).attrs
    assert attributes["text"] == words(24)
    assert attributes["revision"].startswith("sha256:")
    assert {"model", "torch_version", "transformers_version", "identiformer_version", "text_hash"} <= set(attributes)


def test_variants_differ_as_defined(model):
    result = idf.attention_variants(model.trace(words(20)), 1, heads=[0, 3])
    by_name = result.sel
    assert float(by_name(variant="maximum_entropy").entropy) >= float(by_name(variant="raw").entropy) - 1e-6
    assert float(by_name(variant="minimum_norm").negative_share) == 0
    exact = result.sel(variant=["effective", "sum_preserving", "minimum_norm", "maximum_entropy"])
    assert float(exact.output_error.max()) < 1e-4
    assert float(by_name(variant="effective").squared_norm) <= float(exact.squared_norm.min()) + 1e-9
    with pytest.raises(InputError, match="a head from 0 to 3"):
        idf.attention_variants(model.trace(words(6)), 1, heads=[4])
