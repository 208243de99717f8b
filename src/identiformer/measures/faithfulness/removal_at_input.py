"""Yardsticks that remove words of the text, and measure how much the model's output changes.

An explanation ranks the words; every explanation loses or keeps the same number of words, so that a larger or more spread-out one
gains nothing (Huang and Chan 2026). Words are ranked by the score itself: a signed explanation says which words speak against the
output, and these are removed last. A second score ranks words by its absolute value.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.models.interventions.input_removal import KINDS, Kind, outputs_without
from identiformer.passage import Passage

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the words, in comprehensiveness and sufficiency, as in ERASER; at least one word."""
CURVE = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of the words, in the curves of insertion and deletion."""

Values = Callable[[Bool[Tensor, "set word"]], Float64[Tensor, "set"]]
"""From the words that are removed to the number that the model outputs."""


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a text that can be removed, and the model's output without some of them."""

    positions: tuple[tuple[int, ...], ...]
    """The tokens of each word."""
    run: Values
    known: dict[bytes, float] = field(default_factory=dict)
    """Outputs by the words that were removed; explanations often agree on the first ones."""

    def values(self, removed: Bool[Tensor, "set word"]) -> Float64[Tensor, "set"]:
        """The number that the model outputs without some words, run only for sets that did not run before."""
        keys = [row.numpy().tobytes() for row in removed]
        new = {key: index for index, key in enumerate(keys) if key not in self.known}
        if new:
            self.known.update(zip(new, self.run(removed[[*new.values()]]).tolist(), strict=True))
        return torch.tensor([self.known[key] for key in keys], dtype=torch.float64)

    def scores(self, scores: Float[Tensor, "source"]) -> Float64[Tensor, "word"]:
        """The sum of the scores of each word's tokens."""
        return torch.stack([scores[list(word)].double().sum() for word in self.positions])

    def without_top(self, scores: Float64[Tensor, "word"], shares: tuple[float, ...]) -> Float64[Tensor, "share"]:
        """The output without the words of the highest scores, for several shares of the words."""
        return self.values(self._top(scores, shares))

    def only_top(self, scores: Float64[Tensor, "word"], shares: tuple[float, ...]) -> Float64[Tensor, "share"]:
        """The output with only the words of the highest scores, for several shares of the words."""
        return self.values(~self._top(scores, shares))

    def _top(self, scores: Tensor, shares: tuple[float, ...]) -> Tensor:
        order, count = scores.argsort(descending=True, stable=True), len(self.positions)
        chosen = torch.zeros(len(shares), count, dtype=torch.bool)
        for row, share in enumerate(shares):
            chosen[row, order[: max(round(share * count), int(share > 0))]] = True
        return chosen


def _words(kind: Kind, passage: Passage) -> Words:
    """The words without special tokens; of a causal model, those that its output can depend on."""

    def removable() -> Words:
        tokens = passage.tokens
        words = [word.positions for word in tokens.words()] if tokens.word_ids else [(index,) for index in range(len(tokens))]
        last = max(passage.target.positions) if passage.causal else len(tokens)
        kept = tuple(word for word in words if word[0] <= last and not any(tokens.special[position] for position in word))
        return Words(kept, partial(_run, passage, kind, kept))

    return passage.once(f"words, {kind}", removable)


def _run(passage: Passage, kind: Kind, words: tuple[tuple[int, ...], ...], removed: Tensor) -> Tensor:
    target, batch = passage.target, passage.batch
    tokens = torch.zeros(len(removed), batch.longest, dtype=torch.bool)
    for index, positions in enumerate(words):
        tokens[:, list(positions)] |= removed[:, index, None]
    if passage.causal and kind == "delete":  # what follows is never seen, and must not count as what is left
        tokens[:, max(target.positions) + 1 :] = True
    values = torch.empty(len(removed), dtype=torch.float64)
    replica = target.replica(passage.model)
    pool = passage.tokens_of_others if kind == "resample" else ()
    for copies, result, positions in outputs_without(passage.model, replica, batch, tokens, kind, passage.seed, pool):
        values[copies] = target.value(result, _read(passage, positions)).cpu()
    return values


def _read(passage: Passage, positions: Tensor) -> Tensor:
    """Where the number is read: at the last token that is left, or at those of the target that are left."""
    left = positions >= 0
    if passage.causal:
        before = left & (positions <= max(passage.target.positions))
        return torch.nn.functional.one_hot(before.sum(-1) - 1, positions.shape[1]).bool()
    pooled = torch.isin(positions, torch.tensor(passage.target.positions))
    return torch.where(pooled.any(-1, keepdim=True), pooled, left)


def comprehensiveness(words: Words, scores: Tensor) -> Tensor:
    """Mean over shares of f(x) - f(x without the top words)."""
    return words.without_top(scores, (0.0,)) - words.without_top(scores, SHARES).mean()


def sufficiency(words: Words, scores: Tensor) -> Tensor:
    """Mean over shares of f(only the top words) - f(x): at most about zero."""
    return words.only_top(scores, SHARES).mean() - words.without_top(scores, (0.0,))


def deletion(words: Words, scores: Tensor) -> Tensor:
    """Area between f(x) and the curve of f(x without the top words)."""
    curve = words.without_top(scores, CURVE)
    return curve[:1] - torch.trapezoid(curve, torch.tensor(CURVE, dtype=torch.float64))


def insertion(words: Words, scores: Tensor) -> Tensor:
    """Area between the curve of f(only the top words) and f(no words)."""
    curve = words.only_top(scores, CURVE)
    return torch.trapezoid(curve, torch.tensor(CURVE, dtype=torch.float64)) - curve[:1]


Measure = Callable[[Words, Tensor], Tensor]


def _score(measure: Measure, words: Words, scores: Tensor, absolute: bool = False) -> Tensor:
    if not words.positions:
        return torch.tensor(torch.nan).double()
    ranked = words.scores(scores)
    return measure(words, ranked.abs() if absolute else ranked).reshape(())


TITLES: dict[Kind, str] = {
    "mask": "masked",
    "delete": "deleted",
    "mean_embedding": "mean embedding",
    "resample": "tokens of other texts",
}
SCORES = {
    comprehensiveness: ("How much does the output fall without the words ranked highest?", "DeYoung et al. (2020)"),
    sufficiency: ("How much of the output do the words ranked highest retain alone?", "DeYoung et al. (2020)"),
    deletion: ("How fast does the output fall as words are removed, the highest first?", "Petsiuk et al. (2018)"),
    insertion: ("How fast does the output rise as words are inserted, the highest first?", "Petsiuk et al. (2018)"),
}
REMOVAL_AT_INPUT = tuple(
    Yardstick(
        name=f"{measure.__name__}_{kind}",
        title=f"{measure.__name__}, {TITLES[kind]}",
        question=f"{question[:-1]} ({TITLES[kind]})?",
        paper=paper,
        truth=partial(_words, kind),
        score=partial(_score, measure),
        other_scores={"absolute": partial(_score, measure, absolute=True)},
        cost="6 per map",
        judges_explanations=True,
    )
    for kind in KINDS
    for measure, (question, paper) in SCORES.items()
)
