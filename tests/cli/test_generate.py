"""Commands on what a language model writes: its answer, and the attention and hidden vectors of prompt and answer."""

import json

import pytest

import identiformer as idf
from identiformer.cli import run_command
from identiformer.errors import ModelWarning
from identiformer.models.generation import generate as generating
from tests.cli.rejected import rejected
from tests.measures.maps.tiny import tiny_network
from tests.models.families import word_tokenizer

PROMPT = "w3 w1 w4 w1 w5"
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}w9 "


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A language model of two layers in a folder of its own, whose tokenizer has a chat template."""
    folder, tokenizer = tmp_path_factory.mktemp("writer"), word_tokenizer()
    tokenizer.chat_template = TEMPLATE
    tiny_network("llama", "CausalLM", double=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def _run(capsys, *arguments):
    assert run_command([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_generate_prints_each_token_with_what_it_drew_on(capsys, path, tmp_path):
    page = tmp_path / "answer.html"
    out = _run(capsys, "generate", PROMPT, "--model", path, "--max-new-tokens", 3, "--out", page)
    answer = idf.load(path).generate(PROMPT, max_new_tokens=3)
    assert out.startswith(answer.text.strip())
    assert "wrote 3 tokens" in out
    assert "prompt tokens it drew on most" in out
    assert f"{answer.probabilities[0]:.0%}" in out
    assert "is certified" in out
    html = page.read_text(encoding="utf-8")
    assert "The answer, token by token" in html
    assert f"{PROMPT}{answer.text}" in html
    assert html.count("(attention") >= 9


def test_generate_as_json_is_the_attribution_of_the_answer(capsys, path):
    out = _run(
        capsys, "generate", PROMPT, "--model", path, "--max-new-tokens", 3, "--json", "--fast", "--temperature", 1, "--seed", 4
    )
    content, model = json.loads(out), idf.load(path)
    answer = model.generate(PROMPT, max_new_tokens=3, temperature=1.0, seed=4)
    assert content["text"] == answer.text
    shares = idf.answer_attribution(model, answer).share.values
    for step, row in zip(content["steps"], shares, strict=True):
        assert step["shares"] == pytest.approx(row[: step["position"]], abs=1e-4)
        assert step["sources"][0]["category"] in ("free", "noncontributing", "mixed", "readable")


def test_other_commands_take_a_continuation_or_a_chat(capsys, path):
    read = json.loads(_run(capsys, "inspect", PROMPT, "--model", path, "--generate", 3, "--fast", "--json"))
    assert "in the 3 rows that predict the answer" in " ".join(read["reading"]["sentences"])
    assert read["output"]["objective"] == "the answer"
    chat = ("--chat", "--system", "w7", "--generate", 2)
    drew = json.loads(_run(capsys, "attribute", PROMPT, "--model", path, *chat, "--token", 2, "--json"))
    answer = idf.load(path).generate(PROMPT, chat=True, system="w7", max_new_tokens=2)
    assert drew["tokens"] == len(answer.tokens)
    assert drew["token"] == answer.tokens.texts[2]


def test_an_answer_too_long_to_read_is_still_attributed(capsys, path):
    """Too long for the weights of the rows that predicted it."""
    assert run_command(["generate", PROMPT, "--model", path, "--max-new-tokens", "3", "--memory", "1KiB", "--json"]) == 0
    printed = capsys.readouterr()
    assert "the attention of this answer is not read: expected query x key arrays of at most" in " ".join(printed.err.split())
    steps = json.loads(printed.out)["steps"]
    assert len(steps) == 3
    assert steps[0]["sources"][0]["weight"] is None


def test_an_interrupted_reading_leaves_the_attribution(capsys, path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("identiformer.readings.reader.read_heads", interrupted)
    assert run_command(["generate", PROMPT, "--model", path, "--max-new-tokens", "2"]) == 130
    assert "prompt tokens it drew on most" in capsys.readouterr().out


def test_settings_of_the_model_act_on_request_and_are_named(capsys, path, tmp_path):
    network = tiny_network("llama", "CausalLM", double=False)
    network.generation_config.update(repetition_penalty=9.0)
    network.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    capsys.readouterr()
    arguments = ("generate", PROMPT, "--model", tmp_path, "--json", "--fast", "--max-new-tokens", 4)
    plain = json.loads(_run(capsys, *arguments))
    assert plain["text"] == idf.load(path).generate(PROMPT, max_new_tokens=4).text
    assert plain["decoding"] == {"temperature": 0.0}
    asked = json.loads(_run(capsys, *arguments, "--generation-config", "model"))
    assert asked["decoding"] == {"temperature": 0.0, "repetition_penalty": 9.0}
    assert "under the generation_config of the model (repetition_penalty 9.0)" in asked["sentences"][0]


def test_a_template_that_changes_messages_is_reported(capsys, tmp_path):
    tokenizer = word_tokenizer()
    tokenizer.chat_template = "w1 {% for m in messages %}{{ m.content.split()[0] }} {% endfor %}"
    tiny_network("llama", "CausalLM", double=False).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.warns(ModelWarning, match="belongs to which message is unknown"):
        out = _run(capsys, "generate", PROMPT, "--model", tmp_path, "--chat", "--fast", "--max-new-tokens", 2)
    assert "which token belongs to which message is unknown" in " ".join(out.split())
    tokenizer.chat_template = "{{ 'a' | center(10 ** 12) }}"
    tokenizer.save_pretrained(tmp_path)
    assert "expected a chat template that writes a short text" in rejected(
        capsys, "generate", "w1", "--chat", "--model", tmp_path
    )


def test_an_interrupted_answer_is_printed_and_ends_the_command(capsys, path, tmp_path, monkeypatch):
    class Interrupting(generating._Kept):
        def put(self, value):
            super().put(value)
            if len(self.ids) == 2:
                raise KeyboardInterrupt

    written = idf.load(path).generate(PROMPT, max_new_tokens=2).text
    monkeypatch.setattr(generating, "_Kept", Interrupting)
    monkeypatch.setattr("identiformer.answer_attribution", None)
    arguments = ["generate", PROMPT, "--model", path, "--fast", "--max-new-tokens", "9", "--out", str(tmp_path / "new.html")]
    capsys.readouterr()
    for more, shown in ([], written.strip()), (["--json"], ""):
        assert run_command([*arguments, *more]) == 130
        out, error_output = capsys.readouterr()
        assert out.strip() == shown
        assert error_output.startswith("interrupted: ")
        assert len(error_output.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_stop_token_at_once_is_an_answer_of_one_token(capsys, path, tmp_path):
    network, tokenizer = tiny_network("llama", "CausalLM", double=False), word_tokenizer()
    network.generation_config.eos_token_id = idf.load(path).generate(PROMPT, max_new_tokens=1).tokens.ids[-1]
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    capsys.readouterr()
    content = json.loads(_run(capsys, "generate", PROMPT, "--model", tmp_path, "--json", "--fast", "--max-new-tokens", 9))
    assert len(content["steps"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate", PROMPT, "--max-new-tokens", "0"), "expected at least 1 new token, and at most 2147483647, got 0"),
        (("generate", "w1 " * 70), "expected a prompt and an answer of at most 64 tokens"),
        (("generate", PROMPT, "--system", "w1"), "expected a chat for a system message"),
        (("generate", " "), "expected a text, got an empty one"),
        (("generate", PROMPT, "--temperature", "-1"), "expected a temperature of 0"),
        (("generate", PROMPT, "--max-new-tokens", "3", "--out", "."), "is a folder"),
        (("inspect", PROMPT, "--generate", "3", "--pair", "w2"), "got a pair; leave --pair out"),
        (("inspect", PROMPT, "--system", "w1"), "got a plain text; use chat=True (--chat)"),
        (("attribute", PROMPT, "--generate", "0"), "expected at least 1 new token, and at most"),
    ],
)
def test_bad_input_is_rejected_in_one_sentence(capsys, path, arguments, message):
    assert message in " ".join(rejected(capsys, *arguments, "--model", path).split())


def test_models_that_do_not_write_or_chat_are_rejected(capsys, path, tiny_path, tmp_path):
    assert "expected a causal language model" in rejected(capsys, "generate", PROMPT, "--model", tiny_path)
    plain = word_tokenizer()
    tiny_network("llama", "CausalLM", double=False).save_pretrained(tmp_path)
    plain.save_pretrained(tmp_path)
    capsys.readouterr()  # the progress of writing the model
    assert "expected a tokenizer with a chat template" in rejected(capsys, "generate", PROMPT, "--chat", "--model", tmp_path)
