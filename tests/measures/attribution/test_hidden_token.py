"""Estimates of Hidden Token Attribution: their error, what they are summed over, and what is rejected or undefined."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError, MemoryBudgetError
from identiformer.readings import attribution_blocks
from tests.measures.attribution.networks import EVERY, TEXT, network_of
from tests.models.families import build, word_tokenizer

SENTENCE = "The pie."
TEXTS = (
    "The court ruled on Friday that the company must pay its former workers in full.",
    "He said the foodservice pie business doesn't fit the company's long-term growth strategy.",
    "Sheep grazed quietly while thunder rolled over the distant, snow-covered mountains of Norway.",
    "Why did nobody tell me?",
    "In 1927 the physicist published two short papers; both were ignored for nearly thirty years.",
    "Add the flour slowly, stir until smooth, and bake for forty minutes.",
)


@pytest.fixture(scope="module")
def exact(minilm):
    return idf.token_attribution(minilm, SENTENCE, exact=True)


def test_estimates_are_close_on_a_real_model(minilm, exact):
    actual = idf.token_attribution(minilm, SENTENCE, seed=3)
    missed = 0.5 * abs(actual.contribution - exact.contribution).sum("source")
    assert float(missed.median()) < 0.02
    assert float(missed.quantile(0.99)) < 0.05
    inside = (actual.low <= exact.contribution) & (exact.contribution <= actual.high)
    assert 0.88 < float(inside.mean()) < 0.99  # one text; benchmarks hold 93 to 97% over many
    assert (actual.directions == 16).all()
    certain = actual.main_contributor_certain
    assert float((actual.main_contributor == exact.main_contributor).where(certain).mean()) > 0.95


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_intervals_have_their_coverage(minilm):
    """Over 2,000 independent draws: 20 seeds for each of the 107 tokens of six texts."""
    covered: dict[int, list[tuple[int, ...]]] = {2: [], 4: [], 8: [], 16: []}
    for text in TEXTS:
        truth = idf.token_attribution(minilm, text, exact=True).contribution.values
        own = np.broadcast_to(np.eye(truth.shape[1], dtype=bool), truth.shape)
        for directions, hits in covered.items():
            for seed in range(20):
                found = idf.token_attribution(minilm, text, directions=directions, seed=seed)
                inside = (found.low.values <= truth) & (truth <= found.high.values)
                hits += [(inside[own].sum(), own.sum(), inside[~own].sum(), (~own).sum())]
    for directions, hits in covered.items():
        own, all_own, other, all_other = np.sum(hits, 0)
        slack = 0.02 if directions < 8 else 0.01
        assert own / all_own == pytest.approx(0.95, abs=slack), directions
        assert other / all_other == pytest.approx(0.95, abs=slack), directions


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_intervals_of_few_targets_have_their_coverage(family):
    """Over 2,000 independent draws: 500 seeds for each of four vectors, of directions that all sources share."""
    model = idf.load(network_of(family), word_tokenizer())
    selected = {"layers": [1, 2], "targets": [2, 5]}
    truth = idf.token_attribution(model, TEXT, exact=True, **selected).contribution.values
    own = np.broadcast_to(np.arange(truth.shape[2]) == np.array([2, 5])[:, None], truth.shape)
    for directions in (2, 4, 8, 16):
        found = [idf.token_attribution(model, TEXT, directions=directions, seed=seed, **selected) for seed in range(500)]
        inside = np.mean([(each.low.values <= truth) & (truth <= each.high.values) for each in found], 0)
        slack = 0.02 if directions < 8 else 0.01
        for which in (own, ~own & (truth > 0)):
            assert inside[which].mean() == pytest.approx(0.95, abs=slack), directions


@pytest.mark.parametrize("selected", [{}, {"layers": [2], "targets": [0]}])
def test_a_seed_determines_the_directions_whatever_the_batch_size(monkeypatch, selected):
    model = idf.load(network_of("bert"), word_tokenizer())
    first = idf.token_attribution(model, TEXT, seed=4, **selected)
    monkeypatch.setattr("identiformer.models.derivatives.jacobian_blocks.MOST_AT_ONCE", 5)
    second = idf.token_attribution(model, TEXT, seed=4, **selected)
    np.testing.assert_allclose(first.contribution, second.contribution, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(first.high, second.high, rtol=1e-4, atol=1e-9)
    other = idf.token_attribution(model, TEXT, seed=5, **selected)
    assert not np.allclose(first.contribution, other.contribution, rtol=1e-4)


def test_tolerance_adds_directions_only_where_they_are_needed(minilm, exact):
    actual = idf.token_attribution(minilm, SENTENCE, tolerance=0.016)
    assert (actual.distribution_error <= 0.016).all()
    assert actual.main_contributor_certain.all()
    assert (actual.main_contributor == exact.main_contributor).all()
    missed = 0.5 * abs(actual.contribution - exact.contribution).sum("source")
    assert float(missed.mean()) < 0.016
    assert actual.directions.min() < actual.directions.max() <= 384
    loose = idf.token_attribution(minilm, "The pie was his.", tolerance=0.9, directions=4)
    assert loose.directions.min() == 4 < loose.directions.max()  # more only to decide main contributors


def test_memory_limits_the_batch_size(minilm):
    small = idf.token_attribution(minilm, "He said.", memory=24 * 2**20)
    np.testing.assert_allclose(small.contribution, idf.token_attribution(minilm, "He said.").contribution, rtol=1e-5)
    with pytest.raises(MemoryBudgetError, match=r"at least .* MiB"):
        idf.token_attribution(minilm, "He said.", memory=2**20)


def test_sums_over_sets_of_sources(minilm):
    actual = idf.token_attribution(minilm, "He said unbelievably.", "She did.", sets="[SEP]", group_by="segment", directions=2)
    tokens = actual.source_token.values
    separators = [position for position, token in enumerate(tokens) if token == "[SEP]"]
    summed = actual.contribution.isel(source=separators).sum("source")
    np.testing.assert_allclose(actual.set_contribution.sel(set="[SEP]"), summed)
    segments = actual.set_contribution.sel(set=["first text", "second text"])
    np.testing.assert_allclose(segments.sum("set"), 1)
    second = actual.contribution.isel(source=actual.source_segment.values == 1).sum("source")
    np.testing.assert_allclose(segments.sel(set="second text"), second)
    words_of = idf.token_attribution(minilm, "He said unbelievably.", group_by="word", directions=2)["set"].values.tolist()
    assert words_of == ["[CLS] 0", "he 1", "said 2", "unbelievably 3", ". 7", "[SEP] 8"] or "unbelievably 3" in words_of
    tags = ["x", "PRP", "VBD", *["RB"] * (len(tokens) - 3)]
    tagged = idf.token_attribution(minilm, "He said unbelievably.", "She did.", group_by=tags, directions=2)
    assert tagged["set"].values.tolist() == ["x", "PRP", "VBD", "RB"]
    with pytest.raises(InputError, match="a label for each"):
        idf.token_attribution(minilm, "He said.", group_by=["a"])


def test_a_selection_equals_that_part_of_the_whole(minilm):
    whole = idf.token_attribution(minilm, "He said that.")
    part = idf.token_attribution(minilm, "He said that.", layers=[2, 5], targets=[3, 0, 1])
    twice = idf.token_attribution(minilm, "He said that.", layers=[5, 2, 5], targets=[3, 0, 1])
    np.testing.assert_allclose(twice.contribution[[1, 2]], part.contribution)
    np.testing.assert_allclose(twice.contribution[0], twice.contribution[2])
    # Errors, and so the correction of the root's bias, are pooled over the selection.
    np.testing.assert_allclose(part.contribution, whole.contribution.sel(layer=[2, 5], target=[3, 0, 1]), rtol=1e-3)
    np.testing.assert_allclose(part.self_contribution, whole.self_contribution.sel(layer=[2, 5], target=[3, 0, 1]), rtol=1e-3)
    assert float(whole.self_contribution.sel(layer=1, target=2)) == float(whole.contribution.sel(layer=1, target=2, source=2))


def test_few_targets_are_estimated_along_directions_of_their_own_vectors(minilm, exact):
    selected = {"layers": [6], "targets": [0, 4]}
    truth = exact.contribution.sel(layer=[6], target=[0, 4])
    draws = [idf.token_attribution(minilm, SENTENCE, seed=seed, **selected) for seed in range(8)]
    inside = np.mean([(draw.low <= truth) & (truth <= draw.high) for draw in draws])
    assert inside > 0.9
    missed = np.mean([0.5 * abs(draw.contribution - truth).sum("source") for draw in draws])
    assert missed == pytest.approx(np.mean([draw.distribution_error for draw in draws]), rel=0.3)
    again = idf.token_attribution(minilm, SENTENCE, seed=3, **selected)
    assert again.contribution.equals(draws[3].contribution)
    refined = idf.token_attribution(minilm, SENTENCE, tolerance=0.005, **selected)
    assert float(refined.distribution_error.max()) <= 0.005
    assert int(refined.directions.max()) > 16


def test_few_targets_take_fewer_passes_than_all_sources(minilm, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("forward")

    monkeypatch.setattr("identiformer.models.derivatives.jacobian_norms.find_pushforward", fail)
    idf.token_attribution(minilm, "He said that.", targets=[0], layers=[6])
    with pytest.raises(AssertionError, match="forward"):
        idf.token_attribution(minilm, "He said that.")


def test_later_tokens_contribute_nothing_to_a_causal_model():
    model = idf.load(network_of("llama"), word_tokenizer())
    actual = idf.token_attribution(model, TEXT).contribution.values
    assert (actual[:, ~np.tri(actual.shape[1], dtype=bool)] == 0).all()
    np.testing.assert_allclose(actual.sum(-1), 1)


def test_a_result_survives_saving(minilm, tmp_path):
    actual = idf.token_attribution(minilm, "He said.", group_by="special", heads=True, directions=2)
    idf.save_result(actual, tmp_path / "found.zarr")
    assert idf.open_result(tmp_path / "found.zarr").identical(actual)


def test_bad_input(minilm):
    for options, message in (
        ({"targets": [99]}, "a target from 0 to 4, got 99"),
        ({"layers": [0]}, "a layer from 1 to 6, got 0"),
        ({"directions": 385}, "2 to 384 directions.*exact=True"),
        ({"directions": 1}, "2 to 384 directions"),
        ({"norm": "nuclear"}, "frobenius, spectral, summed"),
        ({"input_site": "between"}, "input site of before, after, got 'between'"),
        ({"tolerance": 0.0}, "between 0 and 1"),
        ({"tolerance": 0.1, "exact": True}, "got 0.1 with exact=True"),
        ({"tolerance": float("nan")}, "between 0 and 1"),
        ({"tolerance": 1.0}, "between 0 and 1"),
        ({"tolerance": 1e-300}, "tolerance of 1e-06 or more.*got 1e-300; use exact=True"),
        ({"sets": "zebra"}, "zebra"),
    ):
        with pytest.raises(InputError, match=message):
            idf.token_attribution(minilm, "He said.", **options)


def test_a_sum_that_does_not_depend_on_the_input_is_rejected():
    model = idf.load(build("bert", EVERY["bert"]), word_tokenizer())
    with pytest.raises(InputError, match="layer 1 does not depend on the input"):
        idf.token_attribution(model, TEXT, norm="summed")


def test_derivatives_that_are_not_finite_are_rejected_with_their_layer():
    network = network_of("bert")
    model = idf.load(network, word_tokenizer())
    norm = network.encoder.layer[1].output.LayerNorm
    norm.forward = lambda x: torch.nn.LayerNorm.forward(norm, x) + (x - x).sqrt()  # finite, but without a finite derivative
    with pytest.raises(InputError, match=r"derivatives.*layer 2"):
        idf.token_attribution(model, TEXT)


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"norm": "spectral"}, {"norm": "summed"}, {"targets": [2]}])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_hidden_vector_that_does_not_depend_on_the_input_is_rejected_with_its_layer(family, options):
    network = network_of(family)
    model = idf.load(network, word_tokenizer())
    last = network.encoder.layer[-1].output.LayerNorm if family == "bert" else network.ln_f
    torch.nn.init.zeros_(last.weight)
    layer = 2
    with pytest.raises(InputError, match=rf"depend on the input.*layer {layer}|layer {layer} does not depend on the input"):
        idf.token_attribution(model, TEXT, layers=[layer], **options)


def test_a_head_that_does_not_depend_on_the_input_is_undefined_with_a_warning():
    network = network_of("bert")
    with torch.no_grad():
        network.encoder.layer[1].attention.self.value.weight[8:16] = 0  # of the second of four heads
    model = idf.load(network, word_tokenizer())
    with pytest.warns(UserWarning, match="do not depend on the input, the first at layer 2, head 1, position 0"):
        actual = idf.token_attribution(model, TEXT, heads=True)
    undefined = np.isnan(actual.head_contribution.values).all((-2, -1))
    assert undefined.tolist() == [[False] * 4, [False, True, False, False]]
    assert np.isnan(actual.head_contribution.values).any((-2, -1)).tolist() == undefined.tolist()
    assert not np.isnan(actual.contribution).any()


def test_a_summary_of_undefined_contributions_is_rejected():
    result = idf.token_attribution(idf.load(network_of("bert"), word_tokenizer()), TEXT)
    broken = result.copy(deep=True)
    broken.contribution[1, 3] = np.nan
    with pytest.raises(InputError, match="NaN at layer 2, target 3"):
        attribution_blocks(broken)
