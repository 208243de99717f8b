"""Yardsticks that remove nothing: human rationales, the cue that decides a word, and random weights.

Agreement with rationales is plausibility, not faithfulness: people mark what convinces them, and the model may use other words. A
map of a model must change when the model's weights are random (Adebayo et al. 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.equations.attribution.agreement import average_precision, row_rank_correlation, top_share
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.measures.maps.kind import MapKind
from identiformer.models.interventions.random_weights import with_random_weights
from identiformer.passage import Passage
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


@dataclass(frozen=True, eq=False)
class Evidence:
    """Which tokens are evidence, which could be, and the queries that should attend to them."""

    alignment: Alignment
    candidate: Tensor
    """(source); special tokens are never evidence."""
    queries: tuple[int, ...] = ()


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


def _evidence_of(example: Example, yardstick: str) -> tuple[Span, ...]:
    if not example.evidence:
        raise InputError(
            f"{yardstick} needs the evidence for a text, got one without; use a corpus with evidence, such as ERASER's, or "
            f"Example(text, evidence=…)."
        )
    return example.evidence


def _rationale(passage: Passage) -> Evidence:
    spans, candidate = _evidence_of(passage.example, "agreement with rationales"), ~torch.tensor(passage.tokens.special)
    if passage.causal:  # an answer is predicted from what precedes it
        candidate[max(passage.target.positions) + 1 :] = False
    return Evidence(align(spans, passage.tokens, passage.example.text), candidate)


def _cue(passage: Passage) -> Evidence:
    example = passage.example
    spans = _evidence_of(example, "agreement with cues")
    if example.answer is None:
        raise InputError(
            "agreement with cues needs the word that the evidence decides, got a text without; use a corpus of cues, or "
            "Example(text, evidence=…, answer=…)."
        )
    alignment, candidate = align(spans, passage.tokens, example.text), ~torch.tensor(passage.tokens.special)
    positions = align([example.answer], passage.tokens, example.text).covered.nonzero()[:, 0].tolist()
    if passage.causal:  # it predicts the word at the position before
        candidate[min(positions, default=0) :] = False
        return Evidence(alignment, candidate, tuple(position - 1 for position in positions[:1] if position > 0))
    candidate[positions] = False
    return Evidence(alignment, candidate, tuple(positions))


def _row_precision(truth: Evidence, scores: Tensor) -> Tensor:
    if not truth.queries:  # the word was truncated
        return torch.full(scores.shape[:1], torch.nan, dtype=torch.float64)
    return average_precision(scores[:, list(truth.queries)].abs().mean(1), truth.alignment.covered, truth.candidate)


EVIDENCE = (
    Yardstick(
        name="rationale_precision",
        title="rationales, average precision",
        question="Does the explanation rank the words highest that people mark as evidence?",
        paper="DeYoung et al. (2020)",
        truth=_rationale,
        score=lambda truth, scores: average_precision(scores.abs(), truth.alignment.covered, truth.candidate),
        judges_explanations=True,
        counts=lambda truth: truth.alignment.counts,
    ),
    Yardstick(
        name="rationale_f1",
        title="rationales, token F1",
        question="How many of the tokens that people mark are among as many tokens with the highest scores?",
        paper="DeYoung et al. (2020)",
        truth=_rationale,
        score=lambda truth, scores: top_share(scores.abs(), truth.alignment.covered, truth.candidate),
        judges_explanations=True,
        counts=lambda truth: truth.alignment.counts,
    ),
    Yardstick(
        name="cue_precision",
        title="cues, average precision",
        question="Does the map rank the cue highest in the row of the word that it decides?",
        paper="Mohebbi et al. (2023), Yin and Neubig (2022)",
        truth=_cue,
        score=_row_precision,
        counts=lambda truth: truth.alignment.counts,
    ),
)


SEEDS = (0, 1)
Recomputed = tuple[list[Tensor], Tensor]
"""A map as computed on models with random weights, and which of its scores are compared; explanations are maps of one row."""


def _random_models(passage: Passage) -> list[Passage]:
    """The text as models with random weights read it, one per seed."""

    def read() -> list[Passage]:
        return [passage.read_by(with_random_weights(passage.model, seed)) for seed in SEEDS]

    return passage.once("random weights", read)


def _recomputed(passages: list[Passage], kind: MapKind) -> Recomputed:
    compared = ~torch.tensor([passages[0].tokens.special]) if kind.explains_output else passages[0].visible
    return [torch.atleast_2d(kind.compute(passage)) for passage in passages], compared


def _change(recomputed: Recomputed, scores: Tensor) -> Tensor:
    """1 - |ρ|: Spearman's rank correlation of |scores| with those of random weights, its mean over rows and seeds."""
    others, compared = recomputed
    correlations = [row_rank_correlation(torch.atleast_2d(scores).abs(), other.abs(), compared) for other in others]
    return 1 - torch.stack(correlations).abs().nanmean(0).nanmean(-1)


RANDOM_WEIGHTS = tuple(
    Yardstick(
        name=name,
        title=title,
        question=f"Does the {what} change when the model's weights are random?",
        paper="Adebayo et al. (2018)",
        truth=_random_models,
        score=_change,
        judges_explanations=what == "explanation",
        for_kind=_recomputed,
        cost="2 times that of the map",
    )
    for name, title, what in (
        ("random_weights", "change with random weights", "map"),
        ("random_weights_output", "explanation's change with random weights", "explanation"),
    )
)
