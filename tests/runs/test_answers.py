"""Runs in which a language model answers each text: measures of prompt and answer, whatever else happens to the run."""

import json
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest

import identiformer as idf
from identiformer.cli import run_command
from identiformer.errors import InputError, RunError, UnsupportedModelError
from identiformer.measures.corpus import MEASURES
from identiformer.models import load
from identiformer.models.generation import generate as generating
from tests.cli.rejected import rejected
from tests.measures.maps.tiny import tiny_network
from tests.models.families import word_tokenizer
from tests.runs.tiny import bits, content
from tests.runs.tiny import texts as pairs

pytestmark = pytest.mark.usefixtures("undrawn")

TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}w9 "
CHOSEN = ("effective_attention", "token_attribution", "reading")
QUICK = ("attention_identifiability",)
CONTINUED, CHAT = {"generate": 3}, {"chat": True, "system": "w7", "generate": 3}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A language model of two layers in a folder, whose tokenizer has a chat template."""
    folder, tokenizer = tmp_path_factory.mktemp("writer"), word_tokenizer()
    tokenizer.chat_template = TEMPLATE
    tiny_network("llama", "CausalLM", double=False, vocab_size=len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(path):
    return load(path)


@pytest.fixture(scope="module")
def texts():
    return [pair.text for pair in pairs(33)]


# Each prompt of a chat is rendered in a process of its own.
@pytest.fixture(scope="module", params=[CONTINUED, pytest.param(CHAT, marks=pytest.mark.slow)], ids=["continued", "chat"])
def options(request):
    return request.param


@pytest.fixture(scope="module")
def undisturbed(model, texts, options, tmp_path_factory):
    return idf.run(texts, model, QUICK, out=tmp_path_factory.mktemp("runs") / "run", **options)


@pytest.mark.parametrize("options", [{"generate": 4}, CHAT], ids=["continued", "chat"])
def test_measures_are_those_of_single_answers(model, texts, tmp_path, options):
    done = idf.run(texts[1:3], model, CHOSEN, out=tmp_path / "run", directions=4, **options)
    settings = {"chat": "chat" in options, "system": options.get("system"), "max_new_tokens": options["generate"]}
    answers = [model.generate(text, **settings) for text in texts[1:3]]
    assert int(done["texts"].tokens) == sum(len(answer.tokens) for answer in answers)
    single = [idf.effective_attention(answer.trace) for answer in answers]
    np.testing.assert_allclose(done["effective_attention"].null_mass, np.mean([one.null_mass for one in single], 0), atol=1e-6)
    mixed = [idf.token_attribution(model, answer, directions=4, seed=index) for index, answer in enumerate(answers)]
    shares = np.concatenate([one.self_contribution.values for one in mixed], -1)
    np.testing.assert_allclose(done["token_attribution"].self_contribution, shares.mean(-1), atol=1e-6)
    rows = [idf.attention_reading(one.trace, queries=list(one.positions), processes=1).certified for one in answers]
    np.testing.assert_allclose(done["reading"].certified, np.mean(rows, 0), atol=1e-6)
    assert f"answered each text in up to {options['generate']} tokens" in done.summary
    assert ("in its chat template with a system message" in done.summary) == ("chat" in options)
    assert json.loads(done["texts"].attrs["settings"])["generation"] == settings


def test_comparisons_judge_maps_on_answers(model, path, texts, tmp_path):
    corpus, names = tmp_path / "texts.txt", ("raw", "gradient_times_input")
    corpus.write_text("\n".join(texts[1:3]), encoding="utf-8")
    judges = ("value_zeroing_head", "deletion_mean_embedding")
    chosen = ("--maps", ",".join(names), "--yardsticks", ",".join(judges), "--generate", "3")
    assert run_command(["compare", str(corpus), "--model", path, "--out", str(tmp_path / "run"), *chosen]) == 0
    result = idf.open_run(tmp_path / "run")["faithfulness"]
    for index, text in enumerate(texts[1:3]):
        single = idf.faithfulness(model, model.generate(text, max_new_tokens=3), maps=names, yardsticks=judges, seed=index)
        assert result.example_score[index].values == pytest.approx(single.score.mean("layer").values, abs=1e-6, nan_ok=True)
        explained = result.example_explanation_score[index].values
        assert explained == pytest.approx(single.explanation_score.values, abs=1e-6, nan_ok=True)
    assert "The model answered each text in up to 3 tokens" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_resumed_and_with_other_shards_it_has_the_same_bits(model, path, texts, options, undisturbed, tmp_path):
    shutil.copytree(undisturbed.path, tmp_path / "resumed")
    sorted((tmp_path / "resumed" / "shards").iterdir())[1].unlink()
    (tmp_path / "resumed" / "finished.json").unlink()
    idf.run(texts, path, QUICK, out=tmp_path / "resumed", resume=True, **options)
    assert content(tmp_path / "resumed") == content(undisturbed.path)
    large = idf.run(texts, model, QUICK, out=tmp_path / "large", shard_size=64, **options)
    assert bits(large) == bits(undisturbed)


def test_other_answers_are_another_run(model, texts, tmp_path):
    again = {"out": idf.run(texts[:2], model, QUICK, out=tmp_path / "run", **CHAT).path, "resume": True}
    with pytest.raises(RunError, match=r"generation\.max_new_tokens is 3 there and 2 here"):
        idf.run(texts[:2], model, QUICK, **again, **{**CHAT, "generate": 2})
    with pytest.raises(RunError, match=r"generation\.chat is True there and None here"):
        idf.run(texts[:2], model, QUICK, **again)


def test_a_run_without_answers_keeps_the_files_it_had_before(tiny, tmp_path):
    done = idf.run(["w1 w2"], tiny, ["texts"], out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert "generation" not in stored["settings"]
    assert "generation" not in done["texts"].attrs["settings"]
    settings = replace(done.settings, revision="r", architecture="BertModel", corpus_hash="c", versions={})
    assert settings.shard_name(0) == "000000-30036321fb048c602929d97d5c4922e9"


def test_examples_that_fail_are_left_out(model, texts, tmp_path):
    long = " ".join(["w1"] * 70)
    with pytest.raises(RunError, match=r"answering failed on example 1 .* expected a prompt and an answer of at most 64 tokens"):
        idf.run([texts[0], long], model, ["texts"], out=tmp_path / "stopped", generate=2)
    done = idf.run([texts[0], long], model, ["texts"], out=tmp_path / "run", generate=2, keep_going=True)
    assert [(failure.example, failure.what) for failure in done.failures] == [(1, "answering")]
    assert int(done["texts"].examples) == 1


def test_an_answer_that_cannot_be_read_has_its_other_measures(model, texts, tmp_path, monkeypatch):
    def fails(observation):
        raise ValueError("no reading")

    monkeypatch.setitem(MEASURES, "reading", replace(MEASURES["reading"], observe=fails))
    done = idf.run(texts[:2], model, ["reading"], out=tmp_path / "run", generate=2, keep_going=True)
    assert [(failure.example, failure.what) for failure in done.failures] == [(0, "reading"), (1, "reading")]
    assert list(done.results) == ["texts"]


def test_an_interrupted_answer_is_not_measured(model, texts, tmp_path, monkeypatch):
    class Interrupting(generating._Kept):
        def put(self, value):
            super().put(value)
            if len(self.ids) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(generating, "_Kept", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        idf.run(texts[:2], model, ["texts"], out=tmp_path / "run", generate=4, keep_going=True)
    assert not list((tmp_path / "run" / "shards").iterdir())


def test_a_model_in_another_process_stops_at_the_same_tokens(path):
    model = load(path)
    model.network.generation_config.eos_token_id = model.generate("w3 w1 w4", max_new_tokens=1).tokens.ids[-1]
    sent = pickle.loads(pickle.dumps(model)).generate("w3 w1 w4", max_new_tokens=5)
    assert sent.tokens.ids == model.generate("w3 w1 w4", max_new_tokens=5).tokens.ids
    assert len(sent.probabilities) == 1


@pytest.mark.slow
def test_ray_has_the_same_bits(model, texts, options, undisturbed, tmp_path):
    done = idf.run(texts, model, QUICK, out=tmp_path / "run", engine="ray", workers=2, **options)
    assert bits(done) == bits(undisturbed)


def test_what_cannot_be_answered_is_rejected_before_the_run(capsys, tiny, model, texts, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(UnsupportedModelError, match="expected a causal language model with its head"):
        idf.run(texts, tiny, out=out, generate=4)
    with pytest.raises(InputError, match="expected a tokenizer with a chat template, got one without"):
        idf.run(texts, load(model.network, word_tokenizer()), out=out, chat=True)
    with pytest.raises(InputError, match=r"expected single texts .* got pairs in .*; choose one of the two with --text-column"):
        idf.run(pairs(3), model, out=out, generate=4)
    with pytest.raises(InputError, match=r"expected whole texts .* got a largest length of 9 tokens"):
        idf.run(texts, model, out=out, generate=4, max_length=9)
    with pytest.raises(InputError, match="expected a chat for a system message"):
        idf.compare(texts, model, out=out, system="w1", generate=4)
    assert "expected at least 1 new token" in rejected(capsys, "run", "x.txt", "--out", str(out), "--generate", "0")
    assert not out.exists()
