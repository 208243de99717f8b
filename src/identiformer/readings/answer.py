"""An answer token by token: its probability, the prompt tokens that it drew on, and whether the attention to them holds up."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr

from identiformer.equations.certificates.contributions import CATEGORIES, Cascade
from identiformer.errors import InputError
from identiformer.measures.maps import find_map
from identiformer.models import Answer
from identiformer.readings.reading import Reading
from identiformer.typed_json import finite_or_null

TOP_SOURCES = 3
SHOWN_DIGITS = 4
HOLDS_UP = "readable"
"""The category of attention that holds up."""


@dataclass(frozen=True)
class DrawnFrom:
    """A prompt token that a generated token drew on."""

    position: int
    token: str
    span: str
    share: float
    """Of the size of the attribution to all tokens before the generated one."""
    attribution: float
    """Positive where the token increases the output."""
    weight: float | None
    """The attention from `predicted_at` to this token: the mean over layers of that of their heads, each weighted by how much of
    its layer's output it writes. None without a reading."""
    category: str | None
    """The largest part of that attention: readable, which holds up, or free, sink or mixed, which does not."""


@dataclass(frozen=True)
class Step:
    """One generated token. The model output it at `predicted_at`, the position before its own."""

    step: int
    token: str
    position: int
    predicted_at: int
    probability: float
    span: str
    prompt_share: float
    """The share of all prompt tokens together; the rest is that of earlier tokens of the answer."""
    sources: tuple[DrawnFrom, ...]
    """The prompt tokens with the largest shares, the largest first."""


@dataclass(frozen=True)
class AnswerSummary:
    """An answer token by token; `sentences()` says what it drew on, and `as_json()` holds every share."""

    answer: Answer
    steps: tuple[Step, ...]
    attribution: xr.Dataset
    certified: bool | None
    """Whether the reading has certified bounds; None without a reading."""

    def sentences(self) -> list[str]:
        """The findings as sentences."""
        answer, settings = self.answer, json.loads(self.attribution.attrs["settings"])
        written = len(answer.tokens) - answer.start
        first = f"{answer.model.name} wrote {written} tokens after {answer.start} tokens of prompt."
        if answer.interrupted:
            first += " The generation was interrupted."
        shares = self.span_shares()
        parts = ", ".join(f"{share:.0%} to {name}" for name, share in shares.items())
        of = (
            "hidden vectors"
            if "value" not in self.attribution
            else "logits"
            if settings["output"] == "logit"
            else "probabilities"
        )
        drew = f"By {find_map(settings['method']).title}, the {of} of its tokens are attributed {parts}, on average."
        return [first, drew, *self._held_up()]

    def _held_up(self) -> list[str]:
        """How much of the attention to the sources holds up."""
        counts = Counter(source.category for step in self.steps for source in step.sources if source.category is not None)
        total = sum(counts.values())
        if not total:
            return []
        others = ", ".join(f"{name} in {counts[name]}" for name in CATEGORIES if name != HOLDS_UP and counts[name])
        first = f"The attention to a source holds up in {counts[HOLDS_UP]} of {total} cases"
        return [f"{first}{f', and is mostly {others}' if others else ''}{'' if self.certified else ', before certification'}."]

    def span_shares(self) -> dict[str, float]:
        """The mean share of each part of prompt and answer."""
        spans, mean = self.attribution.source_span.values, self.attribution.share.mean("step").values
        return {str(name): float(mean[spans == name].sum()) for name in dict.fromkeys(spans)}

    def as_json(self) -> dict[str, Any]:
        """The answer as JSON data.

        `prompt`, `text` and `interrupted` of the answer; `model`; `method` and `output` of the attribution; `tokens` and `spans`,
        one per position; `start`, the position of the first generated token; `steps`, one per generated token, with the fields of
        `Step` and with `shares`, one per token before it; `span_shares`; and `sentences`.
        """
        answer, settings = self.answer, json.loads(self.attribution.attrs["settings"])
        rows = self.attribution.share.values
        steps = [
            {**asdict(step), "shares": np.round(row[: step.position], SHOWN_DIGITS).tolist()}
            for step, row in zip(self.steps, rows, strict=True)
        ]
        return finite_or_null(
            {
                **{name: getattr(answer, name) for name in ("prompt", "text", "interrupted", "start")},
                "model": answer.model.name,
                **{name: settings[name] for name in ("method", "output")},
                "tokens": list(answer.tokens.texts),
                "spans": list(answer.tokens.span_names or ()),
                "steps": steps,
                "span_shares": self.span_shares(),
                "sentences": self.sentences(),
            }
        )


def summarize_answer(answer: Answer, attribution: xr.Dataset, reading: Reading | None = None) -> AnswerSummary:
    """Summarize an `answer_attribution`; with the reading of the same answer, also whether attention to the sources holds up."""
    if attribution.sizes["source"] != len(answer.tokens) or attribution.attrs["measure"] != "answer_attribution":
        raise InputError("expected the answer_attribution of the same answer, got another Dataset; compute it again.")
    return AnswerSummary(
        answer,
        tuple(_step(answer, attribution.isel(step=index), reading) for index in range(attribution.sizes["step"])),
        attribution,
        None if reading is None else reading.certified,
    )


def _step(answer: Answer, row: xr.Dataset, reading: Reading | None) -> Step:
    names, shares = answer.tokens.span_names or [""] * len(answer.tokens), row.share.values
    prompt = shares[: answer.start]
    weights, categories = _attention(reading, int(row.predicted_at))
    sources = [
        DrawnFrom(
            int(source), answer.tokens.texts[source], names[source], float(shares[source]), float(row.attribution[source]),
            None if weights is None else float(weights[source]),
            None if categories is None or categories[source] < 0 else CATEGORIES[int(categories[source])],
        )
        for source in np.argsort(-prompt, kind="stable")[:TOP_SOURCES]
    ]  # fmt: skip
    position = int(row.token_position)
    return Step(
        int(row["step"]), answer.tokens.texts[position], position, int(row.predicted_at), float(row.probability),
        names[position], float(prompt.sum()), tuple(sources),
    )  # fmt: skip


def _attention(reading: Reading | None, query: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The weight of each key in a row, and the largest part of it.

    Heads count by how much of their layer's output they write: a head that has all its weight on one key and writes almost
    nothing shows nothing about that key.
    """
    if reading is None:
        return None, None
    row = reading.result.sel(query=query)
    known = row.contributing_weight.notnull() & row.readable_weight.notnull()  # not in heads whose certification was interrupted
    stages = (row.weight, np.minimum(row.low.clip(min=0), row.weight), row.contributing_weight, row.readable_weight)
    weighted = ((stage * row.output_share).where(known).sum(("layer", "head")).values for stage in stages)
    weight, *passed = map(torch.from_numpy, weighted)
    category = torch.where(weight > 0, Cascade(*passed).category(weight), -1)
    return ((row.weight * row.output_share).sum("head") / row.output_share.sum("head")).mean("layer").values, category.numpy()
