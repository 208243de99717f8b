"""Texts in which it is known where an answer comes from: cues in a longer text, repeated random words, and needles."""

import random
from dataclasses import replace
from pathlib import Path

from identiformer.errors import InputError
from identiformer.texts.example import PASSAGE, Example
from identiformer.texts.readers.cues import cue_source, is_cues
from identiformer.texts.readers.lines import Source, numbered

PLANTED = "planted:"
NUMBER = 100
"""Texts of a kind."""
REPEATED = 48
"""Words before they repeat: with their repetition, more tokens than most heads are wide."""
NAMES = ("Clara", "Peter", "Maria", "David", "Anna", "Robert", "Julia", "Martin", "Laura", "Simon")
SECRETS = ("silver", "garden", "window", "summer", "orange", "button", "castle", "pepper", "violet", "copper")
SENTENCES = [sentence.rstrip(".") + "." for sentence in PASSAGE.split(". ")]


def in_longer_text(example: Example) -> Example:
    """The example after the embedded passage, so that the text has more tokens than a head is wide."""
    shift = len(PASSAGE) + 1
    return replace(
        example,
        text=f"{PASSAGE} {example.text}",
        tags=None,
        evidence=example.evidence and tuple((start + shift, stop + shift) for start, stop in example.evidence),
        answer=example.answer and (example.answer[0] + shift, example.answer[1] + shift),
    )


def repeated_words(number: int) -> Example:
    """Random words of the embedded passage that repeat in order: the source of the last word is its first occurrence.

    A language model that has seen "… violet copper … violet" predicts "copper" by attending from the second "violet" to the
    first "copper", as induction heads do (Olsson et al. 2022).
    """
    generator = random.Random(f"repeated words {number}")
    vocabulary = sorted({word.strip(".,;").lower() for word in PASSAGE.split()})
    words = generator.sample(vocabulary, REPEATED)
    repeats = generator.randrange(REPEATED // 2, REPEATED)
    text = " ".join((*words, *words[: repeats + 1]))
    source = len(" ".join(("", *words[:repeats], ""))) - 1
    length = len(words[repeats])
    return Example(text, evidence=((source, source + length),), answer=(len(text) - length, len(text)))


def needle(number: int) -> Example:
    """The embedded passage with a sentence planted in it, and that sentence again at the end: the source of its last word."""
    generator = random.Random(f"needle {number}")
    statement = f"The secret word of {generator.choice(NAMES)} is"
    secret = generator.choice(SECRETS)
    position = generator.randrange(1, len(SENTENCES))
    before = " ".join((*SENTENCES[:position], statement)) + " "
    text = " ".join((f"{before}{secret}.", *SENTENCES[position:], statement, secret))
    return Example(text, evidence=((len(before), len(before) + len(secret)),), answer=(len(text) - len(secret), len(text)))


KINDS = {"induction": repeated_words, "needle": needle}


def planted_source(name: str) -> Source:
    """Texts of one kind, or `planted:PATH` for the cues of a file or folder after the embedded passage."""
    kind = name.removeprefix(PLANTED)
    if kind in KINDS:
        return numbered(name, lambda: NUMBER, KINDS[kind])
    if not is_cues(Path(kind)):
        raise InputError(
            f"expected {', '.join(PLANTED + kind for kind in KINDS)}, or {PLANTED}PATH with a file or folder of cues, got "
            f"{name!r}."
        )
    cues = cue_source(Path(kind))
    return Source(name, lambda start: ((in_longer_text(example), mark) for example, mark in cues.read(start)))
