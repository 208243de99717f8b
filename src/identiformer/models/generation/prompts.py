"""The text that a language model reads before it answers, and who said which part of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from identiformer.errors import InputError, first_line
from identiformer.models.encoding.text import encode_one, tokens_of
from identiformer.texts.example import require_unicode
from identiformer.tokens import Tokens

Messages = Sequence[Mapping[str, str]]
Spans = Mapping[str, tuple[int, int]]
"""Names of parts of a text, and their first character and the one after their last."""

TEMPLATE, PROMPT = "template", "prompt"
"""Roles of tokens that no message holds: those of a chat template, and those of a plain prompt."""


def render(tokenizer: Any, prompt: str | Messages, system: str | None, chat: bool) -> tuple[str, Spans]:
    """The text that the model reads, and which part of it each role said."""
    if isinstance(prompt, str) and not chat:
        if system is not None:
            raise InputError("expected a chat for a system message, got a plain prompt; use chat=True (--chat).")
        return prompt, {}
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(message) for message in prompt]
    if any(
        set(message) != {"role", "content"} or not all(isinstance(part, str) for part in message.values()) for message in messages
    ):
        raise InputError("expected messages with the keys role and content, such as {'role': 'user', 'content': 'Hello.'}.")
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "expected a tokenizer with a chat template, got one without; use a model that was trained for chats, or a plain "
            "prompt (chat=False)."
        )
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs, and raise what they like
        raise InputError(f"expected messages that the chat template takes, got an error from it: {first_line(error)}") from error
    return text, _spans(text, messages)


def _spans(text: str, messages: Messages) -> Spans:
    """Where each message is in the text; a role that speaks several times gets a number from its second message on."""
    spans: dict[str, tuple[int, int]] = {}
    position = 0
    for message in messages:
        content, role = message["content"].strip(), message["role"]
        start = text.find(content, position)
        if start < 0 or not content:  # a template may change or leave out a message
            continue
        earlier = sum(name.split()[0] == role for name in spans)
        spans[role if not earlier else f"{role} {earlier + 1}"] = (start, start + len(content))
        position = start + len(content)
    return spans


def prompt_tokens(tokenizer: Any, text: str, spans: Spans, chat: bool) -> Tokens:
    """The tokens of a prompt, with the role of each; a chat template writes its own special tokens."""
    tokens = encode_prompt(tokenizer, text, chat)
    return replace(tokens, span_names=span_names_of(tokens, spans, TEMPLATE if chat else PROMPT))


def encode_prompt(tokenizer: Any, text: str, chat: bool) -> Tokens:
    """The tokens of a text; in a chat all special tokens are in the text already."""
    require_unicode(text)
    if not text.strip():
        raise InputError("expected a prompt, got an empty one; pass at least one word.")
    if not chat:
        return tokens_of(tokenizer, encode_one(tokenizer, text, None))
    tokens = tokens_of(tokenizer, encode_one(tokenizer, text, None, add_special_tokens=False))
    return replace(tokens, special=tuple(token in tokenizer.all_special_ids for token in tokens.ids))


def span_names_of(tokens: Tokens, spans: Spans, otherwise: str) -> tuple[str, ...]:
    """The name of the span that each token is in; of spans that overlap, the one named last."""
    if spans and tokens.spans is None:
        raise InputError(
            "this tokenizer does not report the characters of its tokens, which spans of a prompt need; use a fast one."
        )
    names = [otherwise] * len(tokens)
    for name, (start, stop) in spans.items():
        if not 0 <= start < stop:
            raise InputError(f"expected a span from one character to a later one, got {start} to {stop} for {name!r}.")
        for position, (first, last) in enumerate(tokens.spans or ()):
            # A token may begin with the space before a word.
            if first < stop and last > start and not tokens.special[position]:
                names[position] = name
    return tuple(names)
