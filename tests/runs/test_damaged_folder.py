"""Folders that are damaged, forged or not of a run: a one-sentence error, and never wrong results."""

import json
import os
import shutil
import zlib

import numpy as np
import pytest

import identiformer as idf
from identiformer.cli import run_command
from identiformer.errors import IdentiformerError, ResultError, RunError
from identiformer.measures.corpus import State
from identiformer.runs.finished_files import hash_of_files
from identiformer.runs.folder import TITLE, RunFolder, ShardResult, _checksum, from_bytes, to_bytes
from identiformer.texts import Example
from tests.runs.tiny import content as files_of
from tests.runs.tiny import texts, write_tsv


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_tsv(tmp_path_factory.mktemp("corpus") / "dev.tsv", texts(70))


@pytest.fixture(scope="module")
def finished(tiny, corpus, tmp_path_factory):
    """Three shards of one measure."""
    path = tmp_path_factory.mktemp("runs") / "run"
    return idf.run(corpus, tiny, ["texts"], out=path).path


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def resume(corpus, tiny, folder):
    return idf.run(corpus, tiny, ["texts"], out=folder, resume=True)


def shards(folder):
    return sorted((folder / "shards").iterdir())


def test_a_misplaced_shard_is_computed_again(tiny, corpus, folder, finished):
    first, second, _ = shards(folder)
    shutil.copyfile(first, second)
    (folder / "finished.json").unlink()
    with pytest.raises(RunError, match="2 of 3 shards are done"):
        idf.open_run(folder)
    with pytest.raises(RunError, match="but 1 are missing, such as number 1"):
        idf.merge_runs([folder], folder.parent / "merged")
    resume(corpus, tiny, folder)
    assert files_of(folder) == files_of(finished)


def test_a_shard_of_other_settings_is_not_valid(tiny, corpus, folder, tmp_path):
    other = idf.run(corpus, tiny, ["texts"], out=tmp_path / "other", seed=1).path
    for mine, foreign in zip(shards(folder), shards(other), strict=True):
        assert mine.name != foreign.name
        shutil.copyfile(foreign, mine)
    damaged = RunFolder.at(folder)
    assert damaged.valid_shards(damaged.stored().settings) == []


def test_shards_of_an_earlier_version_are_rejected(tiny, corpus, folder):
    shards(folder)[0].write_bytes(b"identiformer shard 1\n" + b"0" * 64 + b"\nPK")
    with pytest.raises(RunError, match="expected shards of this version of identiformer, got those of another"):
        resume(corpus, tiny, folder)


def test_a_run_of_an_earlier_version_is_rejected(tiny, corpus, folder):
    path = folder / "settings.json"
    stored = json.loads(path.read_text())
    del stored["format"]
    path.write_text(json.dumps(stored))
    for use in (idf.open_run, lambda folder: resume(corpus, tiny, folder), lambda folder: idf.merge_runs([folder], "none")):
        with pytest.raises(RunError, match=r"expected a run of this version, .*; run again in another"):
            use(folder)


def test_states_survive_a_round_trip():
    empty = ShardResult({"texts": State.empty(), "ambiguity": State({"a": np.arange(6).reshape(2, 3), "b": np.array(-7)})})
    actual = from_bytes(to_bytes(empty, "name"), "name")
    assert actual is not None
    assert actual == empty
    assert actual.states["ambiguity"]["a"].dtype == np.int64
    assert from_bytes(to_bytes(empty, "name"), "other") is None
    assert to_bytes(empty, "name") == to_bytes(actual, "name")


def pack(header, numbers=b""):
    return zlib.compress(json.dumps(header).encode() + b"\n" + numbers)


def header(examples=None, failures=(), measure="texts", **more):
    """The first line of a shard; examples: the shape of the one total of the measure."""
    return {"shapes": {measure: {} if examples is None else {"examples": examples}}, "failures": [*failures], **more}


FORGED = {
    "no packed bytes": b"hello",
    "a pickle": b"cos\nsystem\n(S'true'\ntR.",
    "cut packed bytes": pack(header())[:-3],
    "no header": zlib.compress(b""),
    "a list": pack([]),
    "a deep header": zlib.compress(b"[" * 10**6),
    "too many digits": zlib.compress(b"9" * 10**6),
    "a bomb": zlib.compress(b"\0" * 2**24),
    "other fields": pack(header(more=1)),
    "an absurd shape": pack(header([10**6, 10**6])),
    "a negative shape": pack(header([-1]), b"\0" * 8),
    "two negative axes": pack(header([-1, -1]), b"\0" * 8),
    "numbers left over": pack(header([1]), b"\0" * 16),
    "another measure": pack(header(measure="nothing")),
    "a wrong failure": pack(header(failures=[{"example": "1"}])),
    "a failure elsewhere": pack(header(failures=[{"example": 999, "text": "", "what": "tokenizing", "error": ""}])),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_shard_with_a_valid_checksum_is_computed_again(folder, name):
    settings = RunFolder.at(folder).stored().settings
    path = shards(folder)[1]
    path.write_bytes(TITLE + _checksum(settings.shard_name(1), FORGED[name]) + b"\n" + FORGED[name])
    assert RunFolder.at(folder).valid_shards(settings) == [0, 2]


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (None, "expected 70 examples in the shards of .*, got 43 that were measured and 0 that failed; remove"),
        (
            pack(header([]), np.array(32, "<i8").tobytes()),
            "expected shards of one run, but texts has other totals in some; remove",
        ),
        (pack(header()), "got 38 that were measured"),
    ],
    ids=["another count", "another total", "no total"],
)
def test_a_forged_shard_that_unpacks_does_not_change_the_results(tiny, corpus, folder, packed, message):
    settings = RunFolder.at(folder).stored().settings
    packed = packed or _recount(folder, settings, 5)
    shards(folder)[1].write_bytes(TITLE + _checksum(settings.shard_name(1), packed) + b"\n" + packed)
    with pytest.raises(IdentiformerError, match=message):
        resume(corpus, tiny, folder)


def _recount(folder, settings, examples):
    """A shard with another number of examples in its totals."""
    shard = RunFolder.at(folder).read_shard(settings, 1)
    assert shard is not None
    state = State({**shard.states["texts"].totals, "examples": np.array(examples)})
    return to_bytes(ShardResult({"texts": state}), settings.shard_name(1))[len(TITLE) + 65 :]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling link"])
def test_a_shard_that_is_not_a_file_is_reported(tiny, corpus, folder, kind):
    path = shards(folder)[1]
    path.unlink()
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "dangling link": lambda: path.symlink_to("nowhere")}[kind]()
    if kind == "dangling link":  # the missing shard is computed, and replaces the link
        assert resume(corpus, tiny, folder)
        assert not path.is_symlink()
        return
    with pytest.raises(RunError, match=r"expected to read .*, but it is a .*; remove it and continue with --resume"):
        resume(corpus, tiny, folder)


SETTINGS = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe{}",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "digits": b'{"format": ' + b"9" * 5000 + b"}",
    "only a format": b'{"format": 2}',
}
FIELDS = {
    "examples": [None, "70", 0, -1, 10**30, 2**62, 70.0, True, [], float("nan")],
    "measures": [None, "texts", [], ["../../etc"], ["texts", 3], ["nothing"], {}],
    "shard_size": [0, 33, "32", 32 * 10**20],
    "part": ["2/2x", "9/1", "1/0", "4/9", 1, "1/" + "9" * 5000],
    "seed": [-1, 10**40, "0", None],
    "max_length": [0, "9", 10**30],
    "directions": [1, None, 1.5],
    "versions": [None, [], {"torch": 3}, {"torch": None}],
    "revision": [None, 3, "\ud800"],
    "corpus_hash": [None, {}],
}


@pytest.mark.parametrize("content", SETTINGS.values(), ids=SETTINGS)
def test_damaged_settings_are_reported(folder, content):
    (folder / "settings.json").write_bytes(content)
    for use in (idf.open_run, lambda folder: idf.merge_runs([folder], folder.parent / "out")):
        with pytest.raises(IdentiformerError, match=r"damaged|another version") as caught:
            use(folder)
        assert str(caught.value).count("\n") == 0
    assert not (folder.parent / "out").exists()


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in FIELDS.items() for value in values])
def test_settings_of_the_wrong_type_or_size_are_reported(folder, field, value):
    path = folder / "settings.json"
    stored = json.loads(path.read_text())
    stored["settings"][field] = value
    path.write_text(json.dumps(stored))
    with pytest.raises(ResultError, match=r"settings\.json is damaged: .*; run again in another folder") as caught:
        idf.open_run(folder)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("change", ["removed", "added", "provenance", "settings"])
def test_missing_and_unknown_settings_are_reported(folder, change):
    path = folder / "settings.json"
    stored = json.loads(path.read_text())
    if change == "removed":
        del stored["settings"]["seed"]
    elif change == "added":
        stored["settings"]["more"] = 1
    else:
        stored[change] = {}
    path.write_text(json.dumps(stored))
    with pytest.raises(ResultError, match="is damaged"):
        idf.open_run(folder)


@pytest.mark.timeout(60)
def test_an_absurd_number_of_shards_does_not_take_long(folder):
    path = folder / "settings.json"
    stored = json.loads(path.read_text())
    stored["settings"]["examples"] = 2**53
    path.write_text(json.dumps(stored))
    (folder / "finished.json").unlink()
    with pytest.raises(RunError, match="is not finished: 0 of 281474976710656 shards"):
        idf.open_run(folder)
    with pytest.raises(RunError, match="281474976710656 are missing, such as number 0"):
        idf.merge_runs([folder], folder.parent / "merged")


def test_results_next_to_settings_of_another_run_are_rejected(folder):
    path = folder / "settings.json"
    stored = json.loads(path.read_text())
    stored["settings"]["corpus_hash"] = "sha256:0"
    path.write_text(json.dumps(stored))
    with pytest.raises(
        ResultError, match=r"expected the result of this run in .*texts, got another; make it again with --resume"
    ):
        idf.open_run(folder)


def test_missing_and_altered_files_are_noticed_and_written_again(tiny, corpus, folder, finished):
    checked = [path for path in files_of(folder) if not path.startswith(("shards", "figures", "lock", "results.zarr/zarr.json"))]
    assert {"settings.json", "finished.json", "summary.md", "failures.jsonl"} < set(checked)
    for name in checked:
        path = folder / name
        kept = path.read_bytes()
        path.unlink()
        with pytest.raises(IdentiformerError):
            idf.open_run(folder)
        path.write_bytes(kept + b" ")
        if not name.endswith("json"):  # a space at the end of JSON changes nothing
            with pytest.raises(IdentiformerError):
                idf.open_run(folder)
        path.write_bytes(kept)
    assert idf.open_run(folder).summary
    shutil.rmtree(folder / "results.zarr")
    (folder / "summary.md").write_text("all is well")
    resume(corpus, tiny, folder)
    assert files_of(folder) == files_of(finished)


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize(
    "name", ["results.zarr", "results.zarr/texts", "results.zarr/texts/lengths/c/0", "failures.jsonl", "finished.json"]
)
def test_results_are_not_printed_if_anything_is_gone(folder, capsys, name, more):
    path = folder / name
    assert run_command(["results", str(folder), *more]) == 0
    assert capsys.readouterr().out
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert run_command(["results", str(folder), *more]) == 2
    out, error_output = capsys.readouterr()
    assert out == ""
    assert error_output.startswith("error: ")
    assert error_output.count("\n") == 1
    assert "--resume" in error_output


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_results_that_are_not_complete_are_not_printed(folder, capsys, more):
    described, finished = folder / "results.zarr" / "texts" / "zarr.json", folder / "finished.json"
    about, hashes = json.loads(described.read_text()), json.loads(finished.read_text())
    about["attributes"]["complete"] = 0
    described.write_text(json.dumps(about))
    hashes["results"]["texts"] = hash_of_files(described.parent)
    finished.write_text(json.dumps(hashes))
    assert run_command(["results", str(folder), *more]) == 2
    out, error_output = capsys.readouterr()
    assert out == ""
    assert error_output.startswith("error: expected a complete result in ")
    assert error_output.endswith("got an interrupted one; make it again with --resume.\n")


@pytest.mark.parametrize("name", ["shards", "results.zarr", "figures", "settings.json", "summary.md", "failures.jsonl", "lock"])
def test_links_in_the_folder_are_not_followed(tiny, corpus, folder, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    shutil.move(folder / name, elsewhere)
    (folder / name).symlink_to(elsewhere)
    before = files_of(tmp_path)
    with pytest.raises(RunError, match=r"expected .* of the run, got something else; remove it"):
        resume(corpus, tiny, folder)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("content", [b"{}\n", b"[]\n", b'{"example": 1}\n', b"\xff\n", b"[" * 10**5 + b"\n"])
def test_forged_failures_are_reported(folder, content):
    import hashlib

    (folder / "failures.jsonl").write_bytes(content)
    with pytest.raises(ResultError, match=r"failures\.jsonl as the run wrote it, but it was altered; make it again"):
        idf.open_run(folder)
    about = json.loads((folder / "finished.json").read_text())
    about["failures"] = f"sha256:{hashlib.sha256(content).hexdigest()}"
    (folder / "finished.json").write_text(json.dumps(about))
    with pytest.raises(ResultError, match=r"failures\.jsonl is damaged: .*; make it again"):
        idf.open_run(folder)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_folder_with_something_else_is_not_touched(tiny, corpus, tmp_path, resumed):
    def rejected(match, out=tmp_path / "out"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(RunError, match=match):
            idf.run(corpus, tiny, ["texts"], out=out, resume=resumed)
        assert sorted(tmp_path.rglob("*")) == before

    (tmp_path / "out").write_text("mine")
    rejected("holds a file; choose another")
    rejected("expected to create the folder", tmp_path / "out" / "under")
    rejected("File name too long", tmp_path / ("a" * 300))
    (tmp_path / "out").unlink()
    (tmp_path / "out").symlink_to("nowhere")
    rejected("holds a file; choose another")
    (tmp_path / "out").unlink()
    (tmp_path / "out" / "shards").mkdir(parents=True)
    (tmp_path / "out" / "shards" / "train.parquet").write_text("mine")
    rejected(r"holds shards/train\.parquet")
    (tmp_path / "out" / "shards" / "train.parquet").unlink()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    rejected(r"holds thesis\.txt")
    (tmp_path / "out" / "thesis.txt").unlink()
    (tmp_path / "out" / ".writing-settings.json").touch()  # left by a run that was killed before it had settings
    (tmp_path / "out" / "lock").touch()
    assert idf.run(corpus, tiny, ["texts"], out=tmp_path / "out", resume=resumed)


def test_settings_of_something_else_are_not_resumed_over(tiny, corpus, tmp_path):
    (tmp_path / "settings.json").write_text('{"finetuning": {}}')
    with pytest.raises(RunError, match="of another version, or not of a run"):
        resume(corpus, tiny, tmp_path)
    assert (tmp_path / "settings.json").read_text() == '{"finetuning": {}}'


def test_a_corpus_that_changes_during_a_run_stops_it(tiny, tmp_path, monkeypatch):
    from identiformer.runs.worker import Worker

    corpus = write_tsv(tmp_path / "dev.tsv", texts(70))
    work, changed = Worker.__call__, [Example("w1 w2", "w3"), *texts(70)[1:-1], Example("w4", "w5 w6 w7")]
    monkeypatch.setattr(Worker, "__call__", lambda self, blocks: (write_tsv(corpus, changed), work(self, blocks))[1])
    with pytest.raises(IdentiformerError, match=r"dev\.tsv to stay the same during the run, but examples 32 to 63 .*changed"):
        idf.run(corpus, tiny, ["texts"], out=tmp_path / "run")
    with pytest.raises(RunError, match=r"corpus_hash is .* there and .* here"):
        resume(corpus, tiny, tmp_path / "run")
    monkeypatch.setattr(Worker, "__call__", work)
    run = resume(write_tsv(corpus, texts(70)), tiny, tmp_path / "run")
    undisturbed = idf.run(corpus, tiny, ["texts"], out=tmp_path / "undisturbed")
    assert files_of(run.path) == files_of(undisturbed.path)


def test_a_run_in_which_every_example_fails_has_a_report(tiny, tmp_path):
    from identiformer.report import write_run_report

    run = idf.run(["w1 " * 100] * 3, tiny, ["effective_attention"], out=tmp_path / "run", keep_going=True)
    assert not run.results
    assert "3 examples failed" in write_run_report(run).read_text()


def test_failures_may_contain_any_character(tiny, tmp_path):
    strange = "w1\u2028\x85\x1c " + "w2 " * 100
    run = idf.run([strange, "w1"], tiny, ["texts"], out=tmp_path / "run", keep_going=True)
    assert [failure.text for failure in run.failures] == [strange[:200]]
