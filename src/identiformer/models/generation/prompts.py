"""The text that a language model reads before it answers, and which message holds which part of it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from identiformer.errors import InputError
from identiformer.models.encoding.text import encode_one, tokens_of
from identiformer.models.generation.chat_template import Messages, render_template
from identiformer.texts.example import require_unicode
from identiformer.tokens import Tokens

Spans = Mapping[str, tuple[int, int]]
"""Names of parts of a text, and their first character and the one after their last."""
Parts = tuple[tuple[str, int, int], ...]
"""The same for parts whose names repeat: a template may write a message twice."""

TEMPLATE, PROMPT = "template", "prompt"
"""Names of tokens that no message holds: those of a chat template, and those of a prompt without known parts."""
PRIVATE_USE = range(0xE000, 0xF900)
"""Characters without a meaning, hence without a case or a width that a template could change."""
UNKNOWN_PARTS = (
    "The chat template changes the messages instead of inserting them, so which token belongs to which message is unknown: "
    "all tokens before the answer are counted as the prompt."
)


@dataclass(frozen=True)
class Prompt:
    """The text that a language model reads before it answers."""

    text: str
    chat: bool = False
    marked: str | None = None
    """The text of a chat with a mark in place of each message: what the template alone writes."""
    parts: Parts | None = ()
    """Where each message is; None if that is unknown."""


def render(tokenizer: Any, prompt: str | Messages, system: str | None, chat: bool) -> Prompt:
    """The text that the model reads, and where the messages of a chat are in it."""
    if isinstance(prompt, str) and not chat:
        if system is not None:
            raise InputError("expected a chat for a system message, got a plain prompt; use chat=True (--chat).")
        return Prompt(prompt)
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
    # White space at the ends, which many templates strip, stays outside the marks.
    said = [message["content"].strip() for message in messages]
    mark = next(chr(code) for code in PRIVATE_USE if not any(chr(code) in content for content in said))
    replaced = [
        message | {"content": message["content"].replace(content, f"{mark}{index}{mark}", 1)} if content else message
        for index, (message, content) in enumerate(zip(messages, said, strict=True))
    ]
    text, marked = render_template(tokenizer, messages, replaced)
    return Prompt(text, True, marked, _parts(text, marked, mark, said, _names(messages)))


def _names(messages: Messages) -> list[str]:
    """The role of each message; of a role with several, from the second on also its number."""
    roles = [message["role"] for message in messages]
    numbers = [roles[: index + 1].count(role) for index, role in enumerate(roles)]
    return [role if number == 1 else f"{role} {number}" for role, number in zip(roles, numbers, strict=True)]


def _parts(text: str, marked: str | None, mark: str, said: list[str], names: list[str]) -> Parts | None:
    """Where each message is; None unless the text is the marked one with the messages in place of their marks."""
    pieces, parts = re.split(f"{mark}([0-9]+){mark}", marked or ""), []
    for position in range(1, len(pieces), 2):
        message = int(pieces[position])
        start = sum(map(len, pieces[:position]))
        pieces[position] = said[message] if message < len(said) else ""
        parts.append((names[message], start, start + len(pieces[position])))
    return tuple(parts) if "".join(pieces) == text else None


def notes_of(tokenizer: Any, prompt: Prompt) -> tuple[str, ...]:
    """What a reader of shares by role must know, in sentences."""
    notes = () if prompt.parts is not None else (UNKNOWN_PARTS,)
    control = _control_tokens(tokenizer, prompt)
    if control:
        notes += (
            f"The messages contain control tokens ({', '.join(control)}), which the model reads as if its chat template had "
            "written them: to the model, a message may end or change its role there.",
        )
    return notes


def _control_tokens(tokenizer: Any, prompt: Prompt) -> list[str]:
    """The tokens in the messages of a chat that only the template should write."""
    if prompt.marked is None:
        return []
    read, by_template = (Counter(encode_prompt(tokenizer, text, True).ids) for text in (prompt.text, prompt.marked))
    unknown = tokenizer.unk_token
    control = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    control |= {token for token in tokenizer.get_added_vocab().values() if token in by_template}
    named = tokenizer.convert_ids_to_tokens([token for token in read - by_template if token in control])
    # Words that a tokenizer does not know become its unknown token too, so that one is looked for in the text.
    return [*named, *([unknown] if unknown and prompt.text.count(unknown) > prompt.marked.count(unknown) else ())]


def prompt_tokens(tokenizer: Any, prompt: Prompt, spans: Spans) -> Tokens:
    """The tokens of a prompt, each with the name of the part that it is in."""
    tokens = encode_prompt(tokenizer, prompt.text, prompt.chat)
    parts = [*(prompt.parts or ()), *((name, *ends) for name, ends in spans.items())]
    return replace(
        tokens, span_names=_span_names(tokens, parts, TEMPLATE if prompt.chat and prompt.parts is not None else PROMPT)
    )


def encode_prompt(tokenizer: Any, text: str, chat: bool) -> Tokens:
    """The tokens of a text; in a chat all special tokens are in the text already."""
    require_unicode(text)
    if not text.strip():
        raise InputError("expected a prompt, got an empty one; pass at least one word.")
    if not chat:
        return tokens_of(tokenizer, encode_one(tokenizer, text, None))
    tokens = tokens_of(tokenizer, encode_one(tokenizer, text, None, add_special_tokens=False))
    return replace(tokens, special=tuple(token in tokenizer.all_special_ids for token in tokens.ids))


def _span_names(tokens: Tokens, parts: Iterable[tuple[str, int, int]], otherwise: str) -> tuple[str, ...]:
    """The name of the part that each token is in; of parts that overlap, the one named last."""
    names = [otherwise] * len(tokens)
    for name, start, stop in parts:
        if tokens.spans is None:
            raise InputError(
                "this tokenizer does not report the characters of its tokens, which spans of a prompt need; use a fast one."
            )
        if not 0 <= start < stop:
            raise InputError(f"expected a span from one character to a later one, got {start} to {stop} for {name!r}.")
        for position, (first, last) in enumerate(tokens.spans):
            if first < stop and last > start:  # a token may begin with the space before a word
                names[position] = name
    return tuple(names)
