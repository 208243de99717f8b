"""Fine-tuning in a folder: it learns, continues after an interruption, and rejects other folders."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import identiformer as idf
from identiformer.errors import InputError, ResultError, RunError, UnsupportedModelError
from identiformer.finetuning import glue as module
from identiformer.finetuning.training import KeepLastCheckpoint, Recipe, Trained, _AdvanceBar
from identiformer.folders import ResumableFolder
from identiformer.texts import read_labeled
from tests.glue import write_glue
from tests.models.families import SERVED, build, word_tokenizer

FILES = {
    "config.json",
    "lock",
    "model.safetensors",
    "predictions.json",
    "scores.json",
    "settings.json",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def quick(monkeypatch):
    """A learning rate at which a tiny model with random weights learns."""
    monkeypatch.setattr(module, "Recipe", partial(Recipe, learning_rate=3e-3))


@pytest.fixture(scope="session")
def glue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    return write_glue(write_glue(folder), "CoLA")


@pytest.fixture(scope="session")
def undisturbed(tiny_path, glue, tmp_path_factory):
    """Four epochs of five steps, with a checkpoint after every second step."""
    out = tmp_path_factory.mktemp("undisturbed") / "model"
    idf.finetune(tiny_path, "MRPC", glue, out=out, epochs=4)
    return out


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("task", "names"), [("MRPC", ["accuracy", "F1"]), ("CoLA", ["Matthews correlation", "accuracy"])])
def test_a_task_is_learned_and_the_folder_is_a_model(tiny_path, glue, tmp_path, task, names):
    done = idf.finetune(tiny_path, task, glue, out=tmp_path / "out", epochs=8)
    assert done.scores == dict.fromkeys(names, 1.0)
    assert json.loads((done.path / "scores.json").read_text()) == done.scores
    assert not done.reused
    assert {path.name for path in done.path.iterdir()} == FILES
    loaded = idf.load(done.path)
    assert loaded.trace("w1 w2 w3", "w4").stack().layers
    network = AutoModelForSequenceClassification.from_pretrained(done.path).eval()
    assert torch.equal(network.base_model.embeddings.word_embeddings.weight, loaded.backbone.embeddings.word_embeddings.weight)
    tokenizer, dev = AutoTokenizer.from_pretrained(done.path), read_labeled(glue, task, "dev")
    predicted = [
        int(network(**tokenizer(example.text, example.pair, return_tensors="pt")).logits.argmax()) for example in dev.examples
    ]
    assert tuple(predicted) == dev.labels


@pytest.mark.parametrize("step", [1, 8, 10, 20])
def test_an_interrupted_training_continues_to_the_same_weights(tiny_path, glue, tmp_path, undisturbed, monkeypatch, step):
    done = []

    def stop(self, args, state, control, **kwargs):
        done.append(state.global_step)
        if state.global_step == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_AdvanceBar, "on_step_end", stop)
        with pytest.raises(KeyboardInterrupt):
            idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / "out", epochs=4)
        patch.setattr(_AdvanceBar, "on_step_end", lambda self, args, state, control, **kwargs: done.append(state.global_step))
        resumed = idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / "out", epochs=4)
    first_again = (step - 1) // 2 * 2 + 1
    assert done == [*range(1, step + 1), *range(first_again, 21)]
    assert weights(resumed.path) == weights(undisturbed)
    assert resumed.scores == json.loads((undisturbed / "scores.json").read_text())


def test_an_incomplete_checkpoint_is_ignored(tiny_path, glue, tmp_path, undisturbed, monkeypatch):
    on_save = KeepLastCheckpoint.on_save

    def stop(self, args, state, control, **kwargs):
        if state.global_step == 6:
            (tmp_path / "out" / "checkpoints" / "checkpoint-6" / "optimizer.pt").write_bytes(b"")
            raise KeyboardInterrupt
        on_save(self, args, state, control, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(KeepLastCheckpoint, "on_save", stop)
        with pytest.raises(KeyboardInterrupt):
            idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / "out", epochs=4)
    assert {path.name for path in (tmp_path / "out" / "checkpoints").iterdir()} == {"whole-4", "checkpoint-6"}
    done = idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / "out", epochs=4)
    assert weights(done.path) == weights(undisturbed)
    assert {path.name for path in done.path.iterdir()} == FILES


def test_a_model_that_is_only_partly_written_is_written_again(tiny_path, glue, tmp_path, undisturbed, monkeypatch):
    out, save = tmp_path / "out", Trained.save

    def stop(self, folder):
        save(self, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trained, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            idf.finetune(tiny_path, "MRPC", glue, out=out, epochs=4)
    assert {path.name for path in out.iterdir()} == {"lock", "settings.json", "checkpoints"}
    done = idf.finetune(tiny_path, "MRPC", glue, out=out, epochs=4)
    assert weights(out) == weights(undisturbed)
    assert not done.reused


def test_a_finished_model_is_found_and_not_changed(tiny_path, glue, undisturbed, monkeypatch):
    before = {path.name: path.stat().st_mtime_ns for path in undisturbed.iterdir()}
    monkeypatch.delattr(module, "train_classifier")
    done = idf.finetune(tiny_path, "MRPC", glue, out=undisturbed, epochs=4)
    assert done.reused
    assert done.scores == json.loads((undisturbed / "scores.json").read_text())
    assert {path.name: path.stat().st_mtime_ns for path in undisturbed.iterdir() if path.name != "lock"} == {
        name: time for name, time in before.items() if name != "lock"
    }


def test_other_settings_in_the_same_folder_are_rejected_by_name(tiny_path, glue, undisturbed):
    for options, difference in (
        ({"epochs": 2, "seed": 1}, "seed is 0 there and 1 here; use another folder"),
        ({"epochs": 4, "limit": 64}, "examples is 160 there and 64 here, data"),
    ):
        with pytest.raises(RunError, match=difference):
            idf.finetune(tiny_path, "MRPC", glue, out=undisturbed, **options)
    with pytest.raises(RunError, match="task is MRPC there and CoLA here"):
        idf.finetune(tiny_path, "CoLA", glue, out=undisturbed, epochs=4)


def test_seeds_and_limits_matter_and_the_global_seed_does_not(tiny_path, glue, tmp_path):
    made = []
    for number, options in enumerate(({"limit": 64}, {"limit": 64}, {"limit": 64, "seed": 1}, {"limit": 65})):
        torch.manual_seed(number)
        made.append(weights(idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / str(number), epochs=1, **options).path))
    assert made[0] == made[1]
    assert len(set(made)) == 3


def test_rejected_arguments_leave_no_folder(tiny_path, glue, tmp_path):
    out = tmp_path / "out"
    missing = shutil.copytree(glue, tmp_path / "glue")
    (missing / "MRPC" / "dev.tsv").unlink()
    unpadded = word_tokenizer()
    unpadded.pad_token = None
    decoder = idf.load(build("gpt2", SERVED["gpt2"]), unpadded)
    for arguments, options, error, message in (
        ((tiny_path, "QNLI", glue), {}, InputError, "a task of MRPC, CoLA, SST-2, TREC, movies, got 'QNLI'"),
        ((tiny_path, "MRPC", missing), {}, InputError, "MRPC/dev.tsv, but there is no such file"),
        ((tiny_path, "MRPC", glue), {"limit": 0}, InputError, "at least one example"),
        ((tiny_path, "MRPC", glue), {"epochs": 0}, InputError, "at least one epoch"),
        ((decoder, "MRPC", glue), {}, UnsupportedModelError, "no token to pad texts with"),
    ):
        with pytest.raises(error, match=message):
            idf.finetune(*arguments, out=out, **options)
    assert not out.exists()


def test_a_folder_with_something_else_is_rejected(tiny_path, glue, tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "letters.txt").write_text("dear")
    (tmp_path / "file").write_text("dear")
    other = tmp_path / "run"
    idf.run(["w1 w2"], tiny_path, ["texts"], out=other)
    for out, holds in ((taken, "letters.txt"), (tmp_path / "file", "a file"), (other, "failures.jsonl|figures|results.zarr")):
        with pytest.raises(RunError, match=rf"expected a free folder .* holds ({holds})"):
            idf.finetune(tiny_path, "MRPC", glue, out=out)
    assert [path.name for path in taken.iterdir()] == ["letters.txt"]


def test_two_processes_cannot_write_to_one_folder(tiny_path, glue, tmp_path, monkeypatch):
    def meanwhile(*arguments, **options):
        with pytest.raises(RunError, match="another run is writing"):
            idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / "out")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "train_classifier", meanwhile)
    with pytest.raises(KeyboardInterrupt):
        idf.finetune(tiny_path, "MRPC", glue, out=tmp_path / "out")


def test_a_loaded_model_is_not_changed(tiny, glue, tmp_path):
    before = {name: value.clone() for name, value in tiny.network.state_dict().items()}
    done = idf.finetune(tiny, "MRPC", glue, out=tmp_path / "out", epochs=1, limit=32)
    assert all(torch.equal(value, before[name]) for name, value in tiny.network.state_dict().items())
    assert np.isfinite(list(done.scores.values())).all()


@pytest.mark.parametrize("content", ["", "[]", '{"finetuning": []}', '{"finetuning": 3}', "[" * 100_000])
def test_a_folder_with_unknown_settings_is_rejected(tmp_path, content):
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(RunError, match=r"but .* holds settings\.json"):
        ResumableFolder(tmp_path, "finetuning").check()


@pytest.mark.parametrize("content", ["", "[]", '{"F1": "high"}', '{"F1": ' + "9" * 5000 + "}"])
def test_damaged_scores_are_reported(tmp_path, content):
    (tmp_path / "scores.json").write_text(content)
    with pytest.raises(ResultError, match=r"scores\.json is damaged: .*; remove it and run the same command again"):
        module.finished_scores(tmp_path)
