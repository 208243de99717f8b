"""Render a chat template in a process of its own, with limits on its time, memory and output.

A template is a program in a model's files. Loops, powers and paddings can take years or all memory, and a power or a padding is
a single operation, which nothing in the same process can interrupt.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from identiformer.errors import InputError, ModelError, first_line

SECONDS = 10
"""Far more than the start of a process takes on a busy machine; the rendering itself takes milliseconds."""
MEMORY = 2**30
LONGEST = 2**20
"""Characters that a template may write in addition to what it was given."""

Messages = Sequence[Mapping[str, str]]


def render_template(tokenizer: Any, chat: Messages, other: Messages) -> tuple[str, str | None]:
    """The text of a chat in a tokenizer's chat template, and that of another; None if the template does not take the other."""
    try:
        template = tokenizer.get_chat_template()
    except ValueError as error:
        raise InputError(f"expected a tokenizer with one chat template, got the error {first_line(error)}") from error
    request = {
        "template": template,
        "chats": [list(map(dict, chat)), list(map(dict, other))],
        "variables": tokenizer.special_tokens_map,
    }
    try:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps(request, default=str),
            capture_output=True,
            encoding="ascii",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise _too_much(f"that takes more than {SECONDS} seconds") from None
    try:
        first, second = json.loads(finished.stdout)
    except ValueError:
        raise _too_much(f"that ends its process with status {finished.returncode}") from None
    if "too_much" in first or "too_much" in second:
        raise _too_much(f"that takes more than {MEMORY / 2**30:.0f} GiB or writes more than {LONGEST} characters")
    if "error" in first:
        raise InputError(f"expected messages that the chat template takes, got an error from it: {first['error']}")
    return first["text"], second.get("text")


def _too_much(what: str) -> ModelError:
    return ModelError(f"expected a chat template that writes a short text, got one {what}; use a plain prompt (chat=False).")


def main() -> None:
    """Render the chats of standard input: the process of `render_template`."""
    with suppress(ImportError, ValueError, OSError):  # where the system has such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    request = json.load(sys.stdin)
    json.dump([_render(request["template"], chat, request["variables"]) for chat in request["chats"]], sys.stdout)


def _render(template: str, chat: list[dict[str, str]], variables: dict[str, Any]) -> dict[str, Any]:
    """The text of one chat, rendered as transformers does."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The statement around what an assistant writes, which changes nothing."""

        tags = {"generation"}  # noqa: RUF012  as jinja declares it

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": datetime.now().strftime}
    always = {"messages": chat, "tools": None, "documents": None, "add_generation_prompt": True}
    try:
        text = environment.from_string(template).render(variables | always)
    except (MemoryError, OverflowError):
        return {"too_much": True}
    except Exception as error:  # templates are programs, and raise what they like
        return {"error": first_line(error)}
    given = sum(len(message["content"]) for message in chat)
    return {"too_much": True} if len(text) > LONGEST + 2 * given else {"text": text}


if __name__ == "__main__":
    main()
