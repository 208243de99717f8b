"""Runs over a corpus: the same bits with any shard size, after an interruption or damage, and merged from parts."""

import json

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError, RunError
from identiformer.figures.saving import draw
from identiformer.folders import locked
from identiformer.measures.corpus import MEASURES
from identiformer.models.tracing import trace_batch
from identiformer.runs.worker import Worker
from tests.runs.tiny import ALL, QUICK, bits, texts, write_tsv

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("corpus") / "dev.tsv", texts(70))


@pytest.fixture(scope="module")
def undisturbed(tiny, corpus, tmp_path_factory):
    return idf.run(corpus, tiny, QUICK, out=tmp_path_factory.mktemp("runs") / "undisturbed")


@pytest.fixture
def counted(monkeypatch):
    """The number of the first example of each shard that is computed."""
    firsts = []
    work = Worker.__call__
    monkeypatch.setattr(Worker, "__call__", lambda self, blocks: (firsts.append(blocks[0][0]), work(self, blocks))[1])
    return firsts


def test_a_missing_tagger_is_found_before_the_model_is(tmp_path, monkeypatch):
    def missing():
        raise InputError("no tagger here")

    monkeypatch.setattr("identiformer.texts.tagging.load_tagger", missing)
    with pytest.raises(InputError, match="no tagger here"):
        idf.run(["w1 w2"], "no-such/model", ["self_contribution_by_tag"], out=tmp_path / "run")


def test_every_measure_in_one_run(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("identiformer.figures.saving.draw", draw)
    run = idf.run(texts(5), tiny, ALL, out=tmp_path / "run")
    assert tuple(run.results) == ALL
    assert int(run["texts"].examples) == 5
    assert run["token_attribution"].self_contribution_quantiles.dims == ("quantile", "layer")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "settings.json", "lock", "shards", "results.zarr", "summary.md", "figures", "failures.jsonl", "finished.json",
    }  # fmt: skip
    figures = list((tmp_path / "run" / "figures").iterdir())
    assert len(figures) == 14
    assert all(path.read_bytes().startswith({".png": b"\x89PNG", ".pdf": b"%PDF"}[path.suffix]) for path in figures)
    for words in ("5 examples (pairs)", "None of them was truncated.", "No example failed.", "## Token attribution", "sha256:"):
        assert words in run.summary


def test_means_match_the_measures_of_single_texts(tiny, tmp_path):
    """Compared with plain NumPy means over single texts, batched as in the run, longest last."""
    examples = texts(6)
    run = idf.run(examples, tiny, ALL, out=tmp_path / "run", directions=4)
    mixed = [
        idf.token_attribution(tiny, example.text, example.pair, directions=4, seed=index)
        for index, example in enumerate(examples)
    ]
    examples.sort(key=lambda example: tiny.length(example.text, example.pair))
    traces = tiny.trace([example.text for example in examples], [example.pair for example in examples])
    singles = [idf.effective_attention(trace) for trace in traces]
    # The attention of an untrained model hardly varies, so its correlation is less exact.
    for name, tolerance in (("null_mass", 1e-6), ("correlation", 1e-4)):
        np.testing.assert_allclose(run["effective_attention"][name], np.mean([one[name] for one in singles], 0), atol=tolerance)
    separators = [np.array(trace.tokens) == "[SEP]" for trace in traces]
    received = [one.effective_received.values[..., which].sum(-1) for one, which in zip(singles, separators, strict=True)]
    np.testing.assert_allclose(run["effective_attention"].effective_received.sel(kind="[SEP]"), np.mean(received, 0), atol=1e-7)
    between = [one.raw.values[..., which][:, :, which].sum(-1).mean(-1) for one, which in zip(singles, separators, strict=True)]
    np.testing.assert_allclose(run["effective_attention"].raw_from_separators, np.mean(between, 0), atol=1e-7)
    negative = [-one.effective.values.clip(max=0).sum((2, 3)) / np.abs(one.effective.values).sum((2, 3)) for one in singles]
    np.testing.assert_allclose(run["effective_attention"].negative_share, np.mean(negative, 0), atol=1e-6)
    shares = np.concatenate([one.self_contribution.values for one in mixed], -1)
    actual = run["token_attribution"]
    np.testing.assert_allclose(actual.self_contribution, shares.mean(-1), atol=1e-6)
    median = np.quantile(shares, 0.5, axis=-1, method="inverted_cdf")
    assert np.abs(actual.self_contribution_quantiles.sel(quantile=0.5) - median).max() <= float(actual.quantile_error) + 1e-9
    strangers = np.concatenate([(one.main_contributor != one.target).transpose("layer", "target").values for one in mixed], -1)
    np.testing.assert_allclose(actual.not_own_main, strangers.mean(-1))
    assert np.isclose(actual.by_distance.sum("distance"), 1).all()


def test_correlation_is_stored_by_the_length_of_the_text(tiny, tmp_path):
    examples = texts(6)
    result = idf.run(examples, tiny, ["effective_attention"], out=tmp_path / "run")["effective_attention"]
    lengths = [tiny.length(example.text, example.pair) for example in examples]
    assert np.array_equal(result.texts_by_length, np.bincount(lengths, minlength=513))


def test_any_shard_size_yields_the_same_bits(tiny, corpus, undisturbed, tmp_path):
    other = idf.run(corpus, tiny, QUICK, out=tmp_path / "run", shard_size=64)
    assert bits(other) == bits(undisturbed)
    assert len(list((tmp_path / "run" / "shards").iterdir())) == 2


def test_merged_parts_yield_the_same_bits(tiny, corpus, undisturbed, tmp_path):
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        idf.run(corpus, tiny, QUICK, out=part, part=f"{number}/2")
    with pytest.raises(RunError, match=r"expected all 3 shards .* but 1 are missing, such as number 1"):
        idf.merge_runs(parts[:1], tmp_path / "half")
    assert bits(idf.merge_runs(parts[::-1], tmp_path / "whole")) == bits(undisturbed)
    with pytest.raises(RunError, match="holds a run already"):
        idf.merge_runs(parts, tmp_path / "whole")
    idf.run(corpus, tiny, ["texts"], out=tmp_path / "other", part="2/2")
    with pytest.raises(RunError, match=r"measures is .* there and .* here"):
        idf.merge_runs([parts[0], tmp_path / "other"], tmp_path / "mixed")


def test_resume_computes_only_missing_shards(tiny, corpus, undisturbed, tmp_path, counted):
    idf.run(corpus, tiny, QUICK, out=tmp_path / "run")
    assert counted == [0, 32, 64]
    run = idf.run(corpus, tiny, QUICK, out=tmp_path / "run", resume=True)
    assert counted == [0, 32, 64]
    (tmp_path / "run" / "shards" / f"{run.settings.shard_name(1)}.state").unlink()
    assert bits(idf.run(corpus, tiny, QUICK, out=tmp_path / "run", resume=True)) == bits(undisturbed)
    assert counted == [0, 32, 64, 32]


@pytest.mark.parametrize("harm", ["truncated", "altered", "emptied", "of another kind"])
def test_a_damaged_shard_is_computed_again(tiny, corpus, tmp_path, counted, harm):
    run = idf.run(corpus, tiny, ["texts"], out=tmp_path / "run")
    path = tmp_path / "run" / "shards" / f"{run.settings.shard_name(1)}.state"
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    path.write_bytes({"truncated": content[:-100], "altered": flipped, "emptied": b"", "of another kind": b"hello"}[harm])
    assert bits(idf.run(corpus, tiny, ["texts"], out=tmp_path / "run", resume=True)) == bits(run)
    assert counted == [0, 32, 64, 32]


def test_a_folder_with_other_settings_is_rejected_by_name(tiny, corpus, undisturbed):
    for changed, message in (
        ({"max_length": 9}, "max_length is None there and 9 here; use another folder"),
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"directions": 4}, "directions is 16 there and 4 here"),
        ({"limit": 40}, "corpus_hash is .* examples is 70 there and 40 here"),
        ({"shard_size": 64}, "shard_size is 32 there and 64 here"),
        ({"part": "1/2"}, "part is 1/1 there and 1/2 here"),
    ):
        with pytest.raises(RunError, match=message):
            idf.run(corpus, tiny, QUICK, out=undisturbed.path, resume=True, **changed)


def test_a_folder_that_is_in_use_is_rejected(tiny, corpus, undisturbed, tmp_path):
    with pytest.raises(RunError, match="holds a run already; continue it with --resume"):
        idf.run(corpus, tiny, QUICK, out=undisturbed.path)
    (tmp_path / "mine.txt").touch()
    with pytest.raises(RunError, match=r"free folder for a run, but .* holds mine\.txt"):
        idf.run(corpus, tiny, QUICK, out=tmp_path)


def test_two_runs_cannot_write_to_one_folder(tiny, corpus, tmp_path):
    with locked(tmp_path / "run"), pytest.raises(RunError, match="another run is writing to"):
        idf.run(corpus, tiny, QUICK, out=tmp_path / "run", resume=True)
    idf.run(corpus, tiny, ["texts"], out=tmp_path / "run")


def test_cut_texts_are_counted_and_long_texts_rejected(tiny, tmp_path):
    long = ["w1 w2", "w1 " * 80, "w3 " * 9]
    with pytest.raises(RunError, match=r"example 1 \('w1 w1.*expected at most 64 tokens, got 82; cut texts with --max-length 64"):
        idf.run(long, tiny, ["texts"], out=tmp_path / "rejected")
    run = idf.run(long, tiny, QUICK, out=tmp_path / "cut", max_length=10)
    assert int(run["texts"].cut) == 2
    assert int(run["texts"].tokens) == 4 + 10 + 10
    assert "2 of them were truncated to 10 tokens." in run.summary
    assert int(idf.run(long, tiny, QUICK, out=tmp_path / "far", max_length=999)["texts"].tokens) == 4 + 64 + 11


def test_a_failing_example_is_reported_or_recorded(tiny, tmp_path, monkeypatch):
    examples = texts(40)
    measure = MEASURES["effective_attention"]

    def raises(observation):
        if observation.index == 35:
            raise ZeroDivisionError("by nothing")
        return measure.observe(observation)

    monkeypatch.setitem(MEASURES, "effective_attention", type(measure)("effective_attention", raises, measure.finalize))
    with pytest.raises(RunError, match=r"effective_attention failed on example 35 .*ZeroDivisionError: by nothing"):
        idf.run(examples, tiny, QUICK, out=tmp_path / "run")
    examples[3] = examples[3].__class__("w1 " * 80)
    run = idf.run(examples, tiny, QUICK, out=tmp_path / "kept", keep_going=True)
    assert int(run["texts"].examples) == 39
    assert int(run["effective_attention"].correlation_count.max()) == 38
    assert "**2 examples failed**" in run.summary
    failures = [json.loads(line) for line in (run.path / "failures.jsonl").read_text().splitlines()]
    assert [(failure["example"], failure["what"]) for failure in failures] == [(3, "tokenizing"), (35, "effective_attention")]


def test_one_bad_text_does_not_lose_its_batch(tiny, tmp_path, monkeypatch):
    examples = texts(8)

    def fails(model, batch, *rest):
        if examples[2].text in batch.texts:
            raise RuntimeError("no")
        return trace_batch(model, batch, *rest)

    monkeypatch.setattr("identiformer.models.model.trace_batch", fails)
    with pytest.raises(RunError, match="running failed on example 2"):
        idf.run(examples, tiny, QUICK, out=tmp_path / "stopped")
    kept = idf.run(examples, tiny, QUICK, out=tmp_path / "run", keep_going=True)
    assert int(kept["texts"].examples) == 7


def test_invalid_arguments_are_rejected(tiny, tmp_path):
    out = tmp_path / "run"
    for wrong, message in (
        ({"measures": ["effective"]}, "expected measures among texts, .* got 'effective'"),
        ({"measures": []}, "expected measures among .* got none"),
        ({"engine": "dask"}, "engine of serial, ray"),
        ({"workers": 2}, "the serial engine has one worker"),
        ({"shard_size": 33}, "multiple of 32"),
        ({"part": "3/2"}, "a part such as 1/3"),
        ({"part": "0/1"}, "a part such as 1/3"),
        ({"part": "1/" + "9" * 5000}, "a part such as 1/3"),
        ({"part": "٣/٤"}, "a part such as 1/3"),
        ({"part": "2/2"}, "as many parts as there are shards, 1 of 32 examples, but part 2/2 has none; use fewer parts"),
        ({"shard_size": 32 * 10**30}, "multiple of 32"),
        ({"seed": -1}, "expected a seed from 0 to 4294967295, got -1"),
        ({"seed": 10**40}, "expected a seed from 0 to 4294967295, got a number of 133 bits"),
        ({"limit": 0}, "at least one example to read"),
        ({"limit": 10**30}, "at least one example to read"),
        ({"max_length": 10**30}, "at least 1 token, and at most 2147483647"),
        ({"progress": "loud"}, "progress as none, bar, json"),
        ({"max_length": 0}, "at least 1 token"),
        ({"directions": 1}, "at least 2 directions"),
    ):
        with pytest.raises(InputError, match=message):
            idf.run(texts(2), tiny, out=out, **wrong)
    with pytest.raises(InputError, match="texts has none"):
        idf.run([], tiny, out=out)
    assert not out.exists()


def test_an_unfinished_run_is_not_opened(tiny, corpus, tmp_path, undisturbed):
    with pytest.raises(RunError, match=r"no settings\.json"):
        idf.open_run(tmp_path)
    with pytest.raises(RunError, match="one of the measures of this run"):
        undisturbed["ambiguity"]
    idf.run(corpus, tiny, ["texts"], out=tmp_path / "run")
    (tmp_path / "run" / "finished.json").unlink()
    next((tmp_path / "run" / "shards").iterdir()).unlink()
    with pytest.raises(RunError, match="2 of 3 shards are done; continue with --resume"):
        idf.open_run(tmp_path / "run")


def test_progress_as_lines_of_json(tiny, corpus, tmp_path, capsys):
    idf.run(corpus, tiny, ["texts"], out=tmp_path / "run", progress="json")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["done"] for line in lines] == [32, 64, 70]
    assert set(lines[0]) == {"done", "examples", "examples_per_second", "seconds_left", "running"}
    assert lines[1]["running"] == "shard 2 of 3"
