"""Certified bounds and alternatives of the rows of a head, and the share of certified rows."""

import json

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import identiformer as idf
from identiformer.errors import InputError
from tests.equations.certificates.oracles import least_in_ball, vertices
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module", params=["bert", "llama", "mistral", "gpt_oss"])
def model(request):
    return idf.load(build(request.param, SERVED[request.param]), word_tokenizer())


@pytest.fixture(scope="module")
def trace(model):
    return model.trace(words(24))


@pytest.mark.parametrize("exact", [False, True])
def test_bounds_match_the_rows_that_reach_them(trace, exact):
    last = len(trace.tokens) - 1
    found = idf.ambiguity(trace, 2, 3, queries=[3, last], exact=exact)
    layer = trace.layer(2)
    for row, query in enumerate((3, last)):
        visible = layer.visible.dense()[query].numpy()
        raw = layer.weights[3, query].double().numpy()
        low, high = found.low.values[row], found.high.values[row]
        assert np.isnan(low[~visible]).all()
        assert (low[visible] <= raw[visible] + 1e-9).all()
        assert (raw[visible] <= high[visible] + 1e-9).all()
        assert found.confirmed.values[row][visible].all()
        values = layer.values[3 * len(layer.values) // layer.heads].double().numpy()
        output = values @ layer.projection[3].double().numpy()
        for kind in found["alternative"].values:
            other = found.alternatives.sel(alternative=kind).values[row]
            if np.isnan(other).any():
                assert kind in ("rival", "maximum_entropy")
                continue
            assert (other[~visible] == 0).all()
            assert (other >= 0).all()
            if layer.sink:
                assert other.sum() <= 1 + 1e-7
            else:
                assert other.sum() == pytest.approx(raw.sum(), abs=1e-7)
            assert (other[visible] >= low[visible] - 1e-6).all()
            assert (other[visible] <= high[visible] + 1e-6).all()
            moved = np.linalg.norm((other - raw) @ output) / np.linalg.norm(raw @ output)
            assert moved <= (1e-6 if exact else 1.01e-4)
            assert found.output_change.sel(alternative=kind).values[row] == pytest.approx(moved, abs=1e-9)
            assert found.total_variation.sel(alternative=kind).values[row] == pytest.approx(
                np.abs(other - raw).sum() / 2, abs=1e-9
            )
        assert found.total_variation_low.values[row] <= found.total_variation_high.values[row] + 1e-7
        sigma = np.linalg.svd(values[visible], compute_uv=False)
        rank = np.linalg.matrix_rank(values[visible], tol=sigma[0] * max(values[visible].shape) * np.finfo(np.float32).eps)
        gap = sigma[rank - 1] / sigma[rank] if rank < len(sigma) else np.inf
        assert found.gap.values[row] == pytest.approx(gap, rel=1e-6)
        assert found.largest.values[row] == raw.argmax()
        rival = int(found.rival.values[row])
        if rival >= 0:
            shown = found.alternatives.sel(alternative="rival").values[row]
            assert shown[rival] > shown[raw.argmax()]
            assert not found.argmax_certified.values[row]


def test_certified_argmax_is_largest_at_every_vertex(trace):
    layer = trace.layer(1)
    found = idf.ambiguity(trace, 1, 0, queries=range(12), exact=True, alternatives=False)
    for row in range(12):
        visible = layer.visible.dense()[row].numpy()
        if visible.sum() > 12:
            continue
        every = vertices(layer.weights[0, row].double().numpy()[visible], layer.values[0].double().numpy()[visible], layer.sink)
        first = int(layer.weights[0, row][visible].argmax())
        others = np.delete(every, first, axis=1)
        always = bool((every[:, [first]] > others).all()) if others.size else True
        assert found.argmax_certified.values[row] == always


def test_top_weights_and_sets_of_keys(trace):
    last = 3  # a window may be as narrow as four keys
    found = idf.ambiguity(trace, 1, 0, queries=last, top=3, sets=["w7"], alternatives=False)
    asked = ~np.isnan(found.low.values[0])
    raw = found.raw.values[0]
    assert asked.sum() == 3
    assert raw[asked].min() >= raw[~asked].max()
    assert "alternatives" not in found
    members = [key for key, token in enumerate(trace.tokens) if token == "w7"]
    named = idf.ambiguity(trace, 1, 0, queries=last, keys=members, sets={"both": members}, alternatives=False)
    low, high, mass = (float(each) for each in (named.set_low[0, 0], named.set_high[0, 0], raw[members].sum()))
    assert float(found.set_low[0, 0]) == pytest.approx(low, abs=1e-7)
    assert low - 1e-9 <= mass <= high + 1e-9
    assert high <= named.high.values[0][members].sum() + 1e-7
    assert low >= named.low.values[0][members].sum() - 1e-7


def test_short_texts_are_certified_in_exact_mode():
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    trace = model.trace(words(4))
    found = idf.ambiguity(trace, 1, 2, exact=True)
    np.testing.assert_array_equal(found.low, found.raw)
    np.testing.assert_array_equal(found.high, found.raw)
    assert found.argmax_certified.all()
    assert (found.dimension == 0).all()
    assert (found.total_variation_high == 0).all()
    assert (found.ranking_certified == 1).all()


def test_repeated_words_can_exchange_weight():
    model = idf.load(build("llama", SERVED["llama"]), word_tokenizer())
    trace = model.trace("w1 w2 w1 w3 w1")  # layer 1 of a rotary model gives equal words equal values
    same = [key for key, token in enumerate(trace.tokens) if token == "w1"]
    found = idf.ambiguity(trace, 1, 0, queries=len(trace.tokens) - 1, exact=True)
    total = float(found.raw.values[0][same].sum())
    np.testing.assert_allclose(found.low.values[0][same], 0, atol=1e-7)
    np.testing.assert_allclose(found.high.values[0][same], total, atol=1e-6)


def test_cross_attention():
    model = idf.load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    trace = model.trace(words(20), words(6))
    found = idf.ambiguity(trace, 1, 0, queries=2, kind="cross", alternatives=False)
    assert found.sizes["key"] == len(trace.stack("cross").keys)
    assert found.confirmed.all()


def test_saved_result_is_identical(trace, tmp_path):
    found = idf.ambiguity(trace, 1, 0, queries=[5], sets=["w7"])
    idf.save_result(found, tmp_path / "amb.zarr")
    assert idf.open_result(tmp_path / "amb.zarr").identical(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 9}, "layer from 1 to 2, got 9"),
        ({"head": 4}, "a head from 0 to 3, got 4"),
        ({"queries": 40}, "a query from 0 to"),
        ({"keys": [77]}, "a key from 0 to"),
        ({"sets": ["nowhere"]}, "text of a token"),
        ({"tolerance": 1.5}, "tolerance from 0 to 1"),
    ],
)
def test_unknown_selection_is_rejected(trace, options, message):
    with pytest.raises(InputError, match=message):
        idf.ambiguity(trace, **{"layer": 1, "head": 0, **options})


def test_factored_trace_is_rejected():
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    with pytest.raises(InputError, match="form='weights'"):
        idf.ambiguity(model.trace(words(24), form="factored"), 1, 0)


def test_half_precision_has_a_larger_tolerance():
    network = build("bert", SERVED["bert"]).to(torch.bfloat16)
    trace = idf.load(network, word_tokenizer()).trace(words(24))
    found = idf.ambiguity(trace, 1, 0, queries=3, alternatives=False)
    assert '"tolerance": 0.01' in found.attrs["settings"]


def test_half_precision_rows_may_not_sum_to_one():
    model = idf.load(build("llama", SERVED["llama"]).to(torch.bfloat16), word_tokenizer())
    trace = model.trace(words(24))
    for head in range(4):
        idf.ambiguity(trace, 1, head, queries=[2, 20])
        assert model.rerun(trace, {(1, head): trace.layer(1).weights[head]}).output.patched == 0


def test_indices_and_sets_of_any_type(trace):
    expected = idf.ambiguity(trace, 1, 0, queries=3, sets=["w7"], alternatives=False)
    keys = np.flatnonzero(np.array(trace.tokens) == "w7")
    for query, sets in ((np.int64(3), "w7"), (torch.tensor(3), {"w7": keys}), (np.array([3]), ("w7",))):
        assert idf.ambiguity(trace, 1, 0, queries=query, sets=sets, alternatives=False).identical(expected)
    for options, message in (({"queries": [2.7]}, "integers"), ({"sets": {"a": []}}, "got none"), ({"top": 0}, "at least 1")):
        with pytest.raises(InputError, match=message):
            idf.ambiguity(trace, 1, 0, **options)
    only = idf.ambiguity(trace, 1, 0, queries=3, keys=[1, 2], top=1, alternatives=False)
    assert int((~np.isnan(only.low.values)).sum()) == 1


TEXT = "The minister wrote back to the schoolchildren at once, and the schoolchildren wrote to the minister again."


def test_share_matches_single_rows(minilm):
    trace = minilm.trace(" ".join([TEXT] * 2))
    found = idf.certified_share(trace, layers=[3], rows=8)
    drawn = json.loads(found.attrs["settings"])["rows"]
    assert len(drawn) == 8
    assert not any(trace.stack().queries.special[query] for query in drawn)
    rows = [idf.ambiguity(trace, 3, 7, queries=query, top=1, alternatives=False).isel(query=0) for query in drawn]
    assert float(found.certified.sel(layer=3, head=7)) == np.mean([bool(row.argmax_certified) for row in rows])
    widths = [float((row.high - row.low).sel(key=row.largest)) for row in rows]
    assert float(found.width.sel(layer=3, head=7)) == pytest.approx(np.mean(widths), abs=1e-9)


def test_short_text_is_certified_and_rows_are_reproducible(minilm):
    trace = minilm.trace(TEXT)
    one, again = (idf.certified_share(trace, layers=[1, 6], seed=3) for _ in range(2))
    assert one.identical(again)
    assert one.sizes == {"layer": 2, "head": 12}
    assert np.all((one.certified.values >= 0) & (one.certified.values <= 1))
    assert float(one.certified.mean()) > 0.9


def test_invalid_rows_and_layers_are_rejected(minilm):
    with pytest.raises(InputError, match="rows to be at least 1, got 0"):
        idf.certified_share(minilm.trace(TEXT), rows=0)
    with pytest.raises(InputError, match="a layer from 1 to 6, got 7"):
        idf.certified_share(minilm.trace(TEXT), layers=[7])


def test_contributions_are_certified_with_the_weights(minilm):
    trace = minilm.trace("He said that the pie was his. She did not agree with him, and left it there on the table.")
    result = idf.ambiguity(
        trace, 5, 8, queries=[3, 8], sets={"start": [0, 1], "all": range(len(trace.tokens))}, alternatives=False
    )
    np.testing.assert_allclose(result.contribution.sum("key"), 1, atol=1e-9)
    assert (result.contribution_low <= result.contribution + 1e-9).all()
    assert (result.contribution <= result.contribution_high + 1e-9).all()
    # A set is bounded at least as tightly as its keys one by one, and all keys together write the output.
    start = result.sel(set="start")
    assert (start.set_contribution_low >= result.contribution_low[:, :2].sum("key") - 1e-7).all()
    assert (start.set_contribution_high <= result.contribution_high[:, :2].sum("key") + 1e-7).all()
    np.testing.assert_allclose(result.set_contribution.sel(set="all"), 1, atol=1e-9)
    np.testing.assert_allclose(result.set_contribution_low.sel(set="all"), 1, atol=1e-2)


def test_contributions_of_a_real_row_match_scipy(minilm):
    trace = minilm.trace(
        "He said that the pie was his. She did not agree with him, and left it there on the table for the others."
    )
    query, members, tolerance = 4, [0, 5, 6, 9], 1e-4
    record = trace.layer(5).recorded()
    row = record.weights[8, query].double().numpy()
    written = (record.values[8].double() @ record.projection[8].double()).numpy()
    output = row @ written
    length = np.linalg.norm(output)
    gains, spread = written @ output / length**2, tolerance * np.linalg.norm(written, axis=1) / length
    left, sigma, _ = np.linalg.svd(written, full_matrices=False)
    left, sigma = left[:, :32], sigma[:32]
    half = tolerance * length / sigma
    box = {
        "A_ub": np.vstack([left.T, -left.T]),
        "b_ub": np.concatenate([row @ left + half, half - row @ left]),
        "A_eq": np.ones((1, len(row))),
        "b_eq": [row.sum()],
        "bounds": (0, None),
        "options": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    }

    def ends(chosen):
        low = least_in_ball(linprog(np.where(chosen, gains - spread, 0.0), **box), half)
        high = -least_in_ball(linprog(-np.where(chosen, gains + spread, 0.0), **box), half)
        allowed = (1 - np.sign([low, -high]) * -tolerance) ** 2
        return [low / allowed[0], high / allowed[1]]

    result = idf.ambiguity(trace, 5, 8, queries=query, sets={"some": members}, alternatives=False, tolerance=tolerance)
    for key in (0, 5, 11):
        bounds = [result.contribution_low[0, key].item(), result.contribution_high[0, key].item()]
        np.testing.assert_allclose(bounds, ends(np.arange(len(row)) == key), rtol=0, atol=1e-6)
    bounds = [result.set_contribution_low.item(), result.set_contribution_high.item()]
    np.testing.assert_allclose(bounds, ends(np.isin(np.arange(len(row)), members)), rtol=0, atol=1e-6)
