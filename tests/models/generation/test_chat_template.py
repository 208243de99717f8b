"""Chat templates that would run for years or fill the memory are rejected in one sentence, within a deadline."""

import time
from types import SimpleNamespace

import pytest

from identiformer.errors import InputError, ModelError
from identiformer.models.generation import chat_template
from identiformer.models.generation.chat_template import render_template

CHAT = [{"role": "user", "content": "w1"}]
LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
DOUBLED = "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}"


def _rendered(template):
    tokenizer = SimpleNamespace(special_tokens_map={"eos_token": "</s>"}, get_chat_template=lambda: template)
    return render_template(tokenizer, CHAT, CHAT)


@pytest.mark.parametrize(
    "template",
    [
        LOOP,
        DOUBLED,
        "{{ 10 ** (10 ** 9) }}",
        "{{ 'a' | center(10 ** 10) }}",
        "{{ messages[0].content.ljust(10 ** 10) }}",
        "{{ 'a' * 10 ** 10 }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ 'a' * 2 ** 21 }}",
        "{{ lipsum(n=10 ** 9) }}",
    ],
)
def test_templates_without_end_are_rejected(template, monkeypatch):
    monkeypatch.setattr(chat_template, "SECONDS", 2)
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"expected a chat template that writes a short text, got one .*\(chat=False\)\.$"):
        _rendered(template)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("template", ["{% if", "{{ raise_exception('No.') }}", "{{ messages.missing.field }}", "{{ 1 / 0 }}"])
def test_errors_of_a_template_are_quoted(template):
    with pytest.raises(InputError, match="expected messages that the chat template takes, got an error from it: "):
        _rendered(template)


def test_templates_cannot_see_the_process():
    assert _rendered("{{ ''.__class__ }}{{ messages.append }}{{ eos_token }}") == ("</s>", "</s>")
