"""The reading on real and tiny models: its numbers against the equations and `ambiguity`, and what it does with bad input."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.equations import contributions
from identiformer.errors import InputError, ResultError
from identiformer.measures.heads import certification
from identiformer.trace import AttentionStack, RecordedLayer, Trace
from tests.models.families import SERVED, build, word_tokenizer, words

TEXT = "He said that the pie was his. She did not agree with him, and left it there on the table for all the others to eat."


@pytest.fixture(scope="module")
def trace(minilm):
    return minilm.trace(TEXT)


@pytest.fixture(scope="module")
def reading(minilm, trace):
    attribution = idf.token_attribution(minilm, TEXT, directions=2)
    return idf.attention_reading(trace, attribution, layers=[1, 5], heads=[2, 8])


def test_bounds_agree_with_solving_every_program(trace, reading):
    solved = idf.ambiguity(trace, 5, 8, alternatives=False, queries=[3, 9])
    bounds = reading.sel(layer=5, head=8, query=[3, 9])
    assert (bounds.low <= solved.low_reached + 1e-7).all()
    assert (bounds.high >= solved.high_reached - 1e-7).all()
    assert (bounds.low.sum("key") >= solved.low.sum("key") - 0.02).all()
    assert (bounds.contribution_low <= solved.contribution + 1e-7).all()
    np.testing.assert_allclose(bounds.contribution, solved.contribution, atol=1e-6)


def test_a_factored_trace_is_read_in_the_rows_it_keeps(minilm, trace):
    chosen = {"layers": [1, 5], "heads": [2, 8], "queries": [9, 3]}
    factored = minilm.trace(TEXT, form="factored", rows=[3, 5, 9])
    for certify, error in ((False, 1e-5), (True, 1e-3)):
        ours, theirs = (idf.attention_reading(each, certify=certify, **chosen) for each in (factored, trace))
        for name, numbers in theirs.data_vars.items():
            if numbers.dtype.kind == "f":
                np.testing.assert_allclose(ours[name], numbers, atol=error, err_msg=str(name))
    with pytest.raises(InputError, match=r"without those of row 4; trace the text with rows= and choose the same rows"):
        idf.attention_reading(factored, queries=[3, 4])
    with pytest.raises(InputError, match=r"without those of row 0; .* or trace a shorter text"):
        idf.attention_reading(factored)


def test_each_test_leaves_less(reading):
    assert (reading.readable >= 0).all()
    for smaller, larger in (("readable", "contributing"), ("contributing", "certified")):
        assert (reading[smaller] <= reading[larger] + 1e-9).all()
    np.testing.assert_allclose(reading.contribution.sum("key"), 1, atol=1e-9)
    np.testing.assert_allclose(reading.sel(layer=1).readable, reading.sel(layer=1).contributing)  # no token is mixed yet
    contributing = np.minimum(reading.low, reading.contribution_low.clip(min=0))
    np.testing.assert_allclose(reading.contributing, contributing.sum("key").mean("query"), atol=1e-6)
    np.testing.assert_allclose(reading.readable, (contributing * reading.self_contribution).sum("key").mean("query"), atol=1e-6)


def test_contributions_are_those_of_the_equation(trace, reading):
    record = trace.layer(5).recorded()
    expected = contributions(record.weights.double(), record.values.double(), record.projection.double())[8]
    np.testing.assert_allclose(reading.contribution.sel(layer=5, head=8), expected, atol=1e-6)


def test_sink_of_a_head(reading):
    head = reading.sel(layer=5, head=8)
    assert str(head.key_token[int(head.sink_key)].values) == "[CLS]"
    assert float(head.sink_share) > 0.2
    assert float(head.sink_scale) == pytest.approx(1 - float(head.sink_share))


def test_heads_share_the_output_of_their_layer(trace):
    found = idf.attention_reading(trace, layers=5, certify=False).output_share.sel(layer=5)
    record = trace.layer(5).recorded()
    written = [(a @ v @ h).double() for a, v, h in zip(record.weights, record.values, record.projection, strict=True)]
    layer = sum(written)
    shares = [(head * layer).sum(-1) / (layer * layer).sum(-1) for head in written]
    np.testing.assert_allclose(found, [float(share.mean()) for share in shares], atol=1e-5)
    assert float(found.sum()) == pytest.approx(1, abs=1e-9)


def test_without_certificates_all_weight_counts(trace):
    quick = idf.attention_reading(trace, certify=False)
    np.testing.assert_allclose(quick.certified, 1, atol=1e-6)
    assert "low_solved" not in quick
    assert quick.readable.sel(layer=1).notnull().all()
    assert quick.readable.sel(layer=2).isnull().all()  # without an attribution


def test_processes_do_not_change_the_bounds(trace, reading):
    apart = idf.attention_reading(trace, layers=[1, 5], heads=[2, 8], processes=2)
    assert apart.low.equals(reading.low)
    assert apart.high.equals(reading.high)


def test_an_interruption_is_raised_unless_what_is_certified_is_wanted(trace, monkeypatch, tmp_path):
    certify, calls = certification._certify, []

    def interrupted(*job):
        calls.append(job)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return certify(*job)

    monkeypatch.setattr(certification, "_certify", interrupted)
    options = {"layers": [1], "heads": [0, 1, 2, 3], "processes": 1}
    with pytest.raises(KeyboardInterrupt):
        idf.attention_reading(trace, **options)
    calls.clear()
    partial = idf.attention_reading(trace, **options, keep_partial=True)
    assert partial.certified.notnull().values.tolist() == [[True, True, False, False]]
    assert (partial.category.sel(head=3) == -1).all()
    assert partial.attrs["complete"] == 0
    with pytest.raises(ResultError, match="expected a complete result of attention_reading, got an interrupted one"):
        idf.save_result(partial, tmp_path / "partial.zarr")
    assert not list(tmp_path.iterdir())


def test_causal_heads():
    trace = idf.load(build("llama", SERVED["llama"]), word_tokenizer()).trace(words(4))
    quick = idf.attention_reading(trace, layers=[1, 2], heads=[0, 3])
    hidden = ~torch.ones(len(trace.tokens), len(trace.tokens)).tril().bool().numpy()
    assert np.isnan(quick.low.values[:, :, hidden]).all()
    assert (quick.category.values[:, :, hidden] == -1).all()
    assert (quick.certified > 0.9).all()  # 6 tokens, 8 dimensions
    assert (quick.weight.values[:, :, hidden] == 0).all()


def make_trace(trace, weights, values, projection=None):
    layer = RecordedLayer(1, trace.layer(1).visible.rows(torch.arange(len(weights[0]))), False, projection, weights, values)
    tokens = trace.stack().keys
    return Trace((AttentionStack("self", tokens, tokens, (layer,)),), trace.source)


def test_outputs_of_zero_and_models_without_a_projection(trace):
    size = len(trace.tokens)
    weights = torch.full((1, size, size), 1 / size)
    zero = idf.attention_reading(make_trace(trace, weights, torch.zeros(1, size, 4)))
    assert zero.contribution.isnull().all()
    assert zero.contributing.isnull().all()
    assert zero.certified.item() == pytest.approx(0, abs=1e-6)
    assert '"output": "values"' in zero.attrs["settings"]
    one_hot = idf.attention_reading(make_trace(trace, torch.eye(size)[None], torch.eye(size)[None]))
    assert one_hot.readable.item() == pytest.approx(1, abs=1e-2)


def test_bad_input(minilm, trace):
    for tolerance in (0.0, 1.0, -1e-4):
        with pytest.raises(InputError, match="tolerance between 0 and 1"):
            idf.attention_reading(trace, tolerance=tolerance)
    with pytest.raises(InputError, match="expected recorded weights, got a trace in factored form"):
        idf.attention_reading(minilm.trace(TEXT, form="factored"))
    other = idf.token_attribution(minilm, "He said.", directions=2)
    with pytest.raises(InputError, match="an attribution of the same text"):
        idf.attention_reading(trace, other, certify=False)
    monstrous = idf.attention_reading(minilm.trace("a"), layers=1)
    assert monstrous.sizes["key"] == 3
