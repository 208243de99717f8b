"""Evidence, which is marked in characters, as tokens of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.texts import Example
from identiformer.texts.example import Span
from identiformer.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Alignment:
    """The tokens of some spans of characters, and how many spans fit badly."""

    covered: Tensor
    """Which tokens hold a character of a span (source)."""
    spans: int
    lost: int
    """Spans without a token, because the text was truncated before them or the tokenizer drops their characters."""
    inexact: int
    """Spans whose tokens hold other letters too, or not all of theirs."""

    @property
    def counts(self) -> dict[str, int]:
        """For the report on a corpus."""
        return {
            "pieces of evidence": self.spans,
            "pieces of evidence without a token": self.lost,
            "pieces of evidence whose tokens begin or end elsewhere": self.inexact,
        }


def align(spans: Sequence[Span], tokens: Tokens, text: str) -> Alignment:
    """The tokens of the first text that share a character with a span; white space does not count.

    >>> tokens = Tokens(("Her", "▁boats"), (1, 2), (False, False), (0, 0), (0, 1), ((0, 3), (3, 9)))
    >>> found = align([(5, 9), (12, 15)], tokens, "Her boats and oars")
    >>> found.covered, found.lost, found.inexact
    (tensor([False,  True]), 1, 1)
    """
    if tokens.spans is None:
        raise UnsupportedModelError("this tokenizer does not report the characters of a token; use a fast one.")
    pieces = [
        _characters(text, span) if segment == 0 and not special else set[int]()
        for span, segment, special in zip(tokens.spans, tokens.segments, tokens.special, strict=True)
    ]
    covered, lost, inexact = torch.zeros(len(pieces), dtype=torch.bool), 0, 0
    for span in spans:
        wanted = _characters(text, span)
        members = [index for index, piece in enumerate(pieces) if piece & wanted]
        covered[members] = True
        lost += not members
        inexact += bool(members) and set[int]().union(*(pieces[index] for index in members)) != wanted
    return Alignment(covered, len(spans), lost, inexact)


def _characters(text: str, span: Span) -> set[int]:
    """The characters of a span without white space, which some tokenizers count to the word after it."""
    return {index for index in range(*span) if not text[index].isspace()}


def evidence_of(example: Example, yardstick: str) -> tuple[Span, ...]:
    """The evidence of an example; InputError if it has none."""
    if not example.evidence:
        raise InputError(
            f"{yardstick} needs the evidence for a text, got one without; use a corpus with evidence, such as ERASER's, or "
            f"Example(text, evidence=…)."
        )
    return example.evidence
