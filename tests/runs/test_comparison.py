"""The command compare, and what it writes."""

import csv
import json
import shutil

import numpy as np
import pytest

import identiformer as idf
from identiformer import names
from identiformer.cli import run_command
from identiformer.readings.comparison import caveats, overview, winners
from tests.cli.rejected import rejected
from tests.killed import kill_at_random
from tests.runs.tiny import bits, texts, write_tsv

pytestmark = pytest.mark.usefixtures("undrawn")

QUICK = ("--maps", "raw,norm_layer,random", "--yardsticks", "value_zeroing_head,value_zeroing_head_words")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("corpus") / "dev.tsv", texts(70))


@pytest.fixture(scope="module")
def done(tiny_path, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("comparisons") / "whole"
    assert run_command(["compare", str(corpus), "--model", str(tiny_path), "--out", str(out), *QUICK]) == 0
    return idf.open_run(out)


def test_it_writes_a_table_figures_and_a_page(done):
    result = done["faithfulness"]
    assert result.score.shape == (3, 2)
    assert (result.score_low <= result.score).all()
    with (done.path / "table.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * (1 + result.sizes["layer"])
    first = rows[0]
    assert (first["map"], first["yardstick"], first["layer"], first["examples"]) == ("raw", "value_zeroing_head", "all", "70")
    assert float(first["score"]) == pytest.approx(float(result.score[0, 0]), abs=1e-6)
    assert float(first["median_tokens"]) == np.median(result.tokens)
    ranks = result["rank"].values
    for row in rows[1 : 1 + result.sizes["layer"]]:
        short = sum(tokens <= rank for tokens, rank in zip(result.tokens.values, ranks[:, int(row["layer"]) - 1], strict=True))
        assert float(row["short_share"]) == pytest.approx(short / 70, abs=1e-6)
    assert {path.name for path in (done.path / "figures").iterdir()} == {
        f"{name}.{extension}" for name in ("comparison", "comparison_by_layer") for extension in ("png", "pdf")
    }
    page = (done.path / "report.html").read_text(encoding="utf-8")
    opening = page[page.index("<p>") : page.index("</p>")]
    assert " ".join(overview(result, done.provenance["corpus"])).split(":")[0] in opening
    assert "scores highest on value zeroing, head outputs" in opening


def test_resumed_after_a_lost_shard_it_has_the_same_bits(done, tiny_path, corpus, tmp_path):
    out = tmp_path / "resumed"
    shutil.copytree(done.path, out)
    sorted((out / "shards").iterdir())[1].unlink()
    for name in ("finished.json", "table.csv"):
        (out / name).unlink()
    options = {"maps": QUICK[1].split(","), "yardsticks": QUICK[3].split(",")}
    assert bits(idf.compare(corpus, tiny_path, **options, out=out, resume=True)) == bits(done)
    assert (out / "table.csv").read_bytes() == (done.path / "table.csv").read_bytes()


def test_resampled_tokens_come_from_the_block_of_a_text(tiny_path, tmp_path):
    corpus = texts(33, 4)
    choice = {"maps": ["rollout:raw"], "yardsticks": ["comprehensiveness_resample"]}
    whole = idf.run(corpus, tiny_path, ["faithfulness"], **choice, out=tmp_path / "whole", shard_size=64)
    scores = whole["faithfulness"].example_explanation_score
    np.testing.assert_array_equal(scores, idf.faithfulness(idf.load(tiny_path), corpus, **choice).example_explanation_score)
    alone = idf.faithfulness(idf.load(tiny_path), corpus[:1], **choice).example_explanation_score
    assert alone.item() != scores[0].item()


@pytest.mark.slow
def test_killed_and_resumed_it_has_the_same_bits(done, tiny_path, corpus, tmp_path):
    out = tmp_path / "killed"
    command = ["compare", corpus, "--model", tiny_path, "--out", out, "--resume", *QUICK]
    kill_at_random(out, 1, 1, 0.5, *command)
    assert bits(idf.open_run(out)) == bits(done)
    assert (out / "table.csv").read_bytes() == (done.path / "table.csv").read_bytes()


@pytest.mark.slow
def test_two_ray_workers_give_the_same_bits(done, tiny_path, corpus, tmp_path):
    pytest.importorskip("ray")
    options = {"maps": QUICK[1].split(","), "yardsticks": QUICK[3].split(",")}
    ray = idf.compare(corpus, tiny_path, **options, out=tmp_path / "ray", engine="ray", workers=2)
    assert bits(ray) == bits(done)


AGREEMENT = {
    # Means over pairs, all sources and words only, from an independent computation.
    "minilm": (10, [(0.40, 0.88), (0.74, 0.78), (0.89, 0.90), (0.88, 0.89), (0.93, 0.94), (0.94, 0.94)]),
    "gte-small": (6, [(0.34, 0.86), (0.63, 0.73), (0.88, 0.89), (0.88, 0.89), (0.94, 0.94), (0.94, 0.94)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AGREEMENT)
def test_known_agreement_with_value_zeroing(shared, tmp_path, name):
    pairs, expected = AGREEMENT[name]
    model = name if name == "minilm" else shared / "models" / name
    maps = ["raw", "effective", "norm_values", "norm_heads", "norm_layer", "contribution"]
    yardsticks = ["value_zeroing", "value_zeroing_words"]
    done = idf.compare(shared / "data" / "MRPC" / "dev.tsv", model, maps, yardsticks, out=tmp_path / "mrpc", limit=pairs)
    np.testing.assert_allclose(done["faithfulness"].score, expected, atol=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--maps", "raw,no_such"), "expected maps among raw, "),
        (("--yardsticks", "no_such"), "expected yardsticks among value_zeroing, "),
        (("--maps", "rollout:raw"), "expected a yardstick that judges explanations of the output, such as rollout:raw, got none"),
        (("--yardsticks", "rationale_precision", "--maps", "rollout:raw"), "needs the evidence for a text"),
    ],
)
def test_what_cannot_be_compared_is_rejected_in_one_sentence(capsys, tiny_path, corpus, tmp_path, options, message):
    assert message in rejected(capsys, "compare", corpus, "--model", tiny_path, "--out", tmp_path / "out", *options)


def test_a_map_that_the_model_does_not_support_is_rejected_by_name_and_listed_otherwise(tiny, tmp_path, monkeypatch):
    from identiformer.errors import UnsupportedModelError
    from identiformer.measures.maps import MAPS, MapKind

    def compute(subject):
        raise UnsupportedModelError("nothing supports this map; use another.")

    for known in ("MAPS", "MAPS_OF_LAYERS"):
        monkeypatch.setattr(names, known, (*getattr(names, known), "nowhere"))
    monkeypatch.setitem(MAPS, "nowhere", MapKind("nowhere", "nowhere", "", "", "1", compute))
    with pytest.raises(UnsupportedModelError, match="nothing supports"):
        idf.compare(["w1 w2 w3"], tiny, ["raw", "nowhere"], ["value_zeroing_head"], out=tmp_path / "named")
    done = idf.compare(["w1 w2 w3"], tiny, None, ["value_zeroing_head"], out=tmp_path / "default")
    assert json.loads(done["faithfulness"].attrs["unsupported"])["nowhere"] == "nothing supports this map; use another."
    sentences = caveats(done["faithfulness"])
    assert "Not supported: nowhere: nothing supports this map; use another." in sentences
    assert any("100% of texts" in sentence for sentence in sentences)  # three words are fewer than a head is wide


def test_the_reading_names_the_winner_its_ties_and_the_difference_to_raw():
    generator = np.random.default_rng(0)
    noise = generator.normal(0, 0.01, (30, 1, 1))
    scores = np.array([0.4, 0.9, 0.9, np.nan])[None, :, None] + noise + generator.normal(0, 0.001, (30, 4, 1))
    result = synthetic(scores)
    ((yardstick, best, sentence),) = winners(result)
    assert (yardstick, best) in (("zeroing", "map 1"), ("zeroing", "map 2"))
    tie = {"map 1": "map 2", "map 2": "map 1"}[best]
    assert sentence.startswith(f"{best.capitalize()} scores highest on zeroing: 0.90 [")
    assert f"(as well as {tie}, within the interval)" in sentence
    assert sentence.endswith("raw attention scores 0.40, a difference of +0.50 [+0.50, +0.50].")  # paired: their noise cancels
    assert (result.score_high - result.score_low).max() > 0.005
    assert overview(result, "some texts") == ["tiny over 30 examples of some texts.", sentence]


def test_the_reading_compares_raw_attention_with_the_next_best():
    scores = np.array([0.9, 0.5, 0.7])[None, :, None] + np.random.default_rng(0).normal(0, 0.001, (30, 3, 1))
    ((_, _, sentence),) = winners(synthetic(scores))
    assert sentence.startswith("Raw attention scores highest on zeroing: 0.90 [0.90, 0.90]; map 2 scores 0.70, a diff")
    ((_, _, alone),) = winners(synthetic(scores[:, :1]))
    assert alone == "Raw attention scores highest on zeroing: 0.90 [0.90, 0.90]."


def synthetic(scores):
    """The result of a comparison with these scores (example map yardstick)."""
    import xarray as xr

    from identiformer.measures.faithfulness.bootstrap import estimate

    mean, low, high, _ = estimate(scores)
    names = ["raw", *(f"map{number}" for number in range(1, scores.shape[1]))]
    pair = ("map", "yardstick")
    variables = {"score": (pair, mean), "score_low": (pair, low), "score_high": (pair, high)}
    variables |= {"example_score": (("example", *pair), scores), "tokens": ("example", np.full(len(scores), 9))}
    coordinates = {"map": names, "yardstick": ["zeroing"], "explanation": [], "explanation_yardstick": []}
    coordinates |= {"map_title": ("map", ["raw attention", *(f"map {number}" for number in range(1, scores.shape[1]))])}
    coordinates |= {"yardstick_title": ("yardstick", ["zeroing"])}
    return xr.Dataset(variables, coordinates, {"model": "tiny"})
