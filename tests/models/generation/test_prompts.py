"""Which message each token of a chat is in, for templates of many shapes and messages that occur in the template itself."""

import re

import pytest

import identiformer as idf
from identiformer.errors import ModelWarning
from identiformer.models import load
from identiformer.models.generation.prompts import UNKNOWN_PARTS, render
from identiformer.readings import answer_as_json
from tests.measures.maps.tiny import tiny_network
from tests.models.families import word_tokenizer
from tests.models.generation.chat_templates import CHANGING, INSERTING

CONFUSING = (("AI", "a"), ("helpful", " assistant\n"), ("system\nYou are", "0"))
"""System and user messages that templates write themselves."""


@pytest.fixture(scope="module")
def tokenizer():
    return word_tokenizer()


def _chat(*contents):
    return [{"role": "user" if index % 2 else "system", "content": content} for index, content in enumerate(contents)]


def _outside(prompt):
    """What the template wrote around the messages."""
    ends = [
        0,
        *(end for _, start, stop in sorted(prompt.parts, key=lambda part: part[1]) for end in (start, stop)),
        len(prompt.text),
    ]
    return [prompt.text[start:stop] for start, stop in zip(ends[::2], ends[1::2], strict=True)]


@pytest.mark.parametrize("template", INSERTING.values(), ids=list(INSERTING))
def test_messages_are_found_where_the_template_inserts_them(tokenizer, template, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", template)
    unmistakable = ("qzq0qzq", "qzq1qzq")
    expected = render(tokenizer, _chat(*unmistakable), None, True)
    found = {(name, match.start(), match.end()) for name, content in zip(("system", "user"), unmistakable, strict=True)
             for match in re.finditer(content, expected.text)}  # fmt: skip
    assert set(expected.parts) == found
    for system, user in CONFUSING:
        chat = _chat(system, user)
        prompt = render(tokenizer, chat, None, True)
        assert prompt.text == tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        assert [name for name, _, _ in prompt.parts] == [name for name, _, _ in expected.parts]
        contents = {"system": system.strip(), "user": user.strip()}
        assert all(prompt.text[start:stop] == contents[name] for name, start, stop in prompt.parts)
        assert [part.strip() for part in _outside(prompt)] == [part.strip() for part in _outside(expected)]


@pytest.mark.parametrize("template", CHANGING.values(), ids=list(CHANGING))
def test_parts_are_unknown_where_the_template_changes_messages(tokenizer, template, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", template)
    assert render(tokenizer, _chat("a b c", "a d"), None, True).parts is None


def test_roles_that_speak_again_have_numbers_and_empty_messages_no_part(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", INSERTING["words"])
    prompt = render(tokenizer, [{"role": "user", "content": content} for content in ("w1", " ", "w1", "\ue000")], "w1", True)
    assert [(name, prompt.text[start:stop]) for name, start, stop in prompt.parts] == [
        ("system", "w1"), ("user", "w1"), ("user 3", "w1"), ("user 4", "\ue000"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def model(tokenizer):
    return load(tiny_network("llama", "CausalLM", double=False, vocab_size=len(tokenizer)), tokenizer)


def test_tokens_of_the_user_are_not_those_of_the_template(model, monkeypatch):
    monkeypatch.setattr(model.tokenizer, "chat_template", "w1 w2 w3 {% for m in messages %}{{ m.content }} w4 {% endfor %}")
    answer = model.generate("w2", chat=True, max_new_tokens=1)
    named = list(zip(answer.tokens.texts, answer.tokens.span_names, strict=True))
    assert named[:5] == [("w1", "template"), ("w2", "template"), ("w3", "template"), ("w2", "user"), ("w4", "template")]
    assert answer.notes == ()


def test_unknown_parts_are_reported_and_not_guessed(model, monkeypatch):
    monkeypatch.setattr(model.tokenizer, "chat_template", "w1 {% for m in messages %}{{ m.content.split()[0] }} {% endfor %}")
    with pytest.warns(ModelWarning, match="which token belongs to which message is unknown"):
        answer = model.generate("w2 w3", chat=True, max_new_tokens=1)
    assert answer.tokens.span_names == ("prompt", "prompt", "assistant")
    assert answer.notes == (UNKNOWN_PARTS,)
    found = answer_as_json(answer, idf.answer_attribution(model, answer))
    assert list(found["span_shares"]) == ["prompt", "assistant"]
    assert UNKNOWN_PARTS in found["sentences"]
    assert found["notes"] == [UNKNOWN_PARTS]


@pytest.mark.parametrize("kind", ["special", "added"])
def test_control_tokens_in_a_message_are_named(tokenizer, kind):
    """A special token, or one that was added for the template and not marked as special."""
    tokenizer = word_tokenizer()
    tokenizer.add_tokens(["<turn>", "<unused>"], special_tokens=kind == "special")
    tokenizer.chat_template = "{% for m in messages %}<turn> {{ m.role }} {{ m.content }} {% endfor %}"
    model = load(tiny_network("llama", "CausalLM", double=False, vocab_size=len(tokenizer)), tokenizer)
    assert model.generate("w1 é", chat=True, max_new_tokens=1).notes == ()  # é is unknown to this tokenizer
    with pytest.warns(ModelWarning, match=r"control tokens \(<turn>\), which the model reads as if its chat template"):
        answer = model.generate("w1 <turn> w2", chat=True, max_new_tokens=1)
    with pytest.warns(ModelWarning, match=r"control tokens \(\[UNK\]\)"):
        assert model.generate("w1 [UNK]", chat=True, max_new_tokens=1).notes
    named = [name for text, name in zip(answer.tokens.texts, answer.tokens.span_names, strict=True) if text == "<turn>"]
    assert named == ["template", "user"]
    ids = tokenizer(answer.prompt, add_special_tokens=False)["input_ids"]
    assert list(answer.tokens.ids[: answer.start]) == ids
