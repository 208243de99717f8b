"""Yardsticks with known evidence: human rationales, and the cue that decides a word.

Agreement with rationales is plausibility, not faithfulness: people mark what convinces them, and the model may use other words.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.equations.attribution.agreement import average_precision, top_share
from identiformer.errors import InputError
from identiformer.measures.faithfulness.alignment import Alignment, align, evidence_of
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.passage import Passage


@dataclass(frozen=True, eq=False)
class Evidence:
    """Which tokens are evidence, which could be, and the queries that should attend to them."""

    alignment: Alignment
    candidate: Tensor
    """(source); special tokens are never evidence."""
    queries: tuple[int, ...] = ()


def _regular(passage: Passage) -> Tensor:
    return ~torch.tensor(passage.tokens.special)


def _rationale(passage: Passage) -> Evidence:
    spans = evidence_of(passage.example, "agreement with rationales")
    candidate = _regular(passage)
    if passage.causal:  # an answer is predicted from what precedes it
        candidate[max(passage.target.positions) + 1 :] = False
    return Evidence(align(spans, passage.tokens, passage.example.text), candidate)


def _precision(truth: Evidence, scores: Tensor) -> Tensor:
    return average_precision(scores.abs(), truth.alignment.covered, truth.candidate)


def _share(truth: Evidence, scores: Tensor) -> Tensor:
    return top_share(scores.abs(), truth.alignment.covered, truth.candidate)


def _cue(passage: Passage) -> Evidence:
    example = passage.example
    spans = evidence_of(example, "agreement with cues")
    if example.answer is None:
        raise InputError(
            "agreement with cues needs the word that the evidence decides, got a text without; use a corpus of cues, or "
            "Example(text, evidence=…, answer=…)."
        )
    alignment, candidate = align(spans, passage.tokens, example.text), _regular(passage)
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


def _counts(truth: Evidence) -> dict[str, int]:
    return truth.alignment.counts


RATIONALE_PRECISION = Yardstick(
    name="rationale_precision",
    title="rationales, average precision",
    question="Does the explanation rank the words highest that people mark as evidence?",
    paper="DeYoung et al. (2020)",
    truth=_rationale,
    score=_precision,
    judges_explanations=True,
    counts=_counts,
)
RATIONALE_F1 = Yardstick(
    name="rationale_f1",
    title="rationales, token F1",
    question="How many of the tokens that people mark are among as many tokens with the highest scores?",
    paper="DeYoung et al. (2020)",
    truth=_rationale,
    score=_share,
    judges_explanations=True,
    counts=_counts,
)
CUE_PRECISION = Yardstick(
    name="cue_precision",
    title="cues, average precision",
    question="Does the map rank the cue highest in the row of the word that it decides?",
    paper="Mohebbi et al. (2023), Yin and Neubig (2022)",
    truth=_cue,
    score=_row_precision,
    counts=_counts,
)
