"""Reject tokenizers that multiply a text: one replacement can turn a word into gigabytes, and nothing interrupts it."""

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from identiformer.errors import ModelError

LARGEST_GROWTH = 1000
"""Times; a normalizer of SentencePiece writes up to 18 characters for one, and templates add a few special tokens."""
STEPS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
SEQUENCES = ("normalizers", "pretokenizers", "processors", "decoders")


def steps_of(tokenizer: Any) -> dict[str, Any]:
    """The steps of a tokenizer as in its file, except those that were written in Python."""
    states = {}
    for step in STEPS:
        with suppress(Exception):
            states[step] = json.loads(getattr(tokenizer.backend_tokenizer, step).__getstate__())
    return states


def check_growth(steps: Mapping[str, Any], name: str) -> None:
    """Raise ModelError if a step of a tokenizer can make a text or its tokens more than `LARGEST_GROWTH` times as long."""
    for step in STEPS:
        times = _growth(steps[step]) if steps.get(step) else 1
        if times > LARGEST_GROWTH:
            raise ModelError(
                f"expected a tokenizer that makes a text at most {LARGEST_GROWTH} times as long, got {times:.2g} times from the "
                f"{step} of {name}; use another model, or repair its tokenizer.json."
            )


def _growth(step: dict[str, Any]) -> float:
    """How many times as long a text, or its tokens, can be after a step."""
    times = 1.0
    for inner in next((step[key] for key in SEQUENCES if key in step), ()):
        times *= _growth(inner)
    if step["type"] == "Replace":
        pattern = step["pattern"].get("String")
        replaced = len(step["content"])
        times *= max(1.0, replaced / len(pattern) if pattern else replaced + 1)  # an expression may match nothing at all
    elif step["type"] == "Prepend":
        times *= 1 + len(step["prepend"])
    elif step["type"] == "Precompiled":
        stored = base64.b64decode(step["precompiled_charsmap"] or "")
        characters = stored[4 + int.from_bytes(stored[:4], "little") :].split(b"\0")  # after the trie and its size
        times *= max(1, *map(len, characters))
    elif step["type"] == "TemplateProcessing":
        times *= max(len(step["single"]), len(step["pair"]))
        times *= max((len(token["ids"]) for token in step["special_tokens"].values()), default=1)
    return times
