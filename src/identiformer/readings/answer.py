"""An answer token by token: its probability, the prompt tokens that it drew on, and the largest part of the attention to them."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from identiformer.equations.certificates.contributions import CATEGORIES, Cascade
from identiformer.errors import InputError
from identiformer.measures.heads.received import STAGES
from identiformer.measures.maps import find_map
from identiformer.models import Answer
from identiformer.models.generation.decoding import decoding_sentence
from identiformer.readings.blocks import Block, Sentences, Table, cell_text
from identiformer.readings.reading import FAILURES, Reading
from identiformer.typed_json import finite_or_null

TOP_SOURCES = 3
SHOWN_DIGITS = 4
NOTE = (
    "The probability of each generated token, the share of all prompt tokens in it, and those with the largest shares: token, "
    "position, share, and the attention to it, with heads weighted by how much they write"
)


def answer_blocks(answer: Answer, attribution: xr.Dataset, reading: Reading | None = None) -> list[Block]:
    """What an answer drew on, by its `answer_attribution`; with its reading, also the largest part of the attention to that."""
    steps = _steps(answer, attribution, reading)
    rows = [
        {
            "token": step["token"],
            "probability": step["probability"],
            "from prompt": step["prompt_share"],
            "prompt tokens it drew on most": "\n".join(map(_source_text, step["sources"])),
        }
        for step in steps
    ]
    found = _categories(steps)
    reasons = [f"{reason}." for category, reason in FAILURES.items() if category in found]
    opening = Sentences("", _sentences(answer, attribution, steps, reading))
    return [opening, Table("The answer, token by token", rows, (NOTE,)), *([Sentences("", reasons)] if reasons else [])]


def answer_as_json(answer: Answer, attribution: xr.Dataset, reading: Reading | None = None) -> dict[str, Any]:
    """The same as JSON data.

    `prompt`, `text`, `interrupted`, `decoding` and `notes` of the answer; `model`; `method` and `output` of the attribution;
    `tokens` and `spans`, one per position; `start`, the position of the first generated token; `steps`, one per generated
    token; `span_shares`, the mean share of each part of prompt and answer; and `sentences`.

    A step has its number `step`, `token`, `position` and `span`; `predicted_at`, the position before its own, and the
    `probability` there; `prompt_share`, that of all prompt tokens together, and `shares`, one per token before it. Its `sources`
    are the prompt tokens with the largest shares, the largest first: `position`, `token` and `span`; `share` of the size of the
    attribution to all tokens before, and `attribution`, positive where the token increases the output; `weight`, the attention
    to it, the mean over layers of that of their heads, each weighted by how much of its layer's output it writes; and
    `category`, the largest part of that attention: readable, free, noncontributing or mixed. The last two are None without a
    reading.
    """
    settings, steps = json.loads(attribution.attrs["settings"]), _steps(answer, attribution, reading)
    return finite_or_null(
        {
            **{name: getattr(answer, name) for name in ("prompt", "text", "interrupted", "decoding", "notes", "start")},
            "model": answer.model.name,
            **{name: settings[name] for name in ("method", "output")},
            "tokens": list(answer.tokens.texts),
            "spans": list(answer.tokens.span_names or ()),
            "steps": steps,
            "span_shares": _span_shares(attribution),
            "sentences": _sentences(answer, attribution, steps, reading),
        }
    )


def _sentences(answer: Answer, attribution: xr.Dataset, steps: Sequence[dict], reading: Reading | None) -> list[str]:
    written = len(answer.tokens) - answer.start
    first = f"{answer.model.name} wrote {written} tokens after {answer.start} tokens of prompt."
    if answer.decoding:
        first += f" {decoding_sentence(answer.decoding)}"
    if answer.interrupted:
        first += " The generation was interrupted."
    settings = json.loads(attribution.attrs["settings"])
    of = "logits" if settings["output"] == "logit" else "probabilities"
    parts = ", ".join(f"{share:.0%} to {name}" for name, share in _span_shares(attribution).items())
    drew = (
        f"By {find_map(settings['method']).title}, the {of if 'value' in attribution else 'hidden vectors'} of its tokens are "
        f"attributed {parts}, on average."
    )
    sentences, counts = [first, *answer.notes, drew], _categories(steps)
    if reading is not None and counts:
        listed = ", ".join(f"{name} in {counts[name]}" for name in reversed(CATEGORIES) if counts[name])
        total = sum(len(step["sources"]) for step in steps)
        rest = "" if counts.total() == total else f" and unknown in {total - counts.total()}"
        before = "" if reading.certified else ", before certification"
        sentences.append(f"Of the attention to these {total} sources, the largest part is {listed}{rest}{before}.")
    return sentences


def _categories(steps: Sequence[dict]) -> Counter[str]:
    """How many sources have each category."""
    return Counter(source["category"] for step in steps for source in step["sources"] if source["category"] is not None)


def _span_shares(attribution: xr.Dataset) -> dict[str, float]:
    spans, mean = attribution.source_span.values, attribution.share.mean("step").values
    return {str(name): float(mean[spans == name].sum()) for name in dict.fromkeys(spans)}


def _source_text(source: dict[str, Any]) -> str:
    verdict = "" if source["category"] is None else f", {source['category']}"
    attention = "" if source["weight"] is None else f" (attention {cell_text(source['weight'])}{verdict})"
    return f"‘{source['token']}’ {source['position']} {cell_text(source['share'])}{attention}"


def _steps(answer: Answer, attribution: xr.Dataset, reading: Reading | None) -> list[dict[str, Any]]:
    if attribution.sizes["source"] != len(answer.tokens) or attribution.attrs["measure"] != "answer_attribution":
        raise InputError("expected the answer_attribution of the same answer, got another Dataset; compute it again.")
    return [_step(answer, attribution.isel(step=index), reading) for index in range(attribution.sizes["step"])]


def _step(answer: Answer, row: xr.Dataset, reading: Reading | None) -> dict[str, Any]:
    names, shares = answer.tokens.span_names or [""] * len(answer.tokens), row.share.values
    position, prompt = int(row.token_position), shares[: answer.start]
    weights, categories = _attention(reading, int(row.predicted_at))
    sources = [
        {
            "position": source,
            "token": answer.tokens.texts[source],
            "span": names[source],
            "share": float(shares[source]),
            "attribution": float(row.attribution[source]),
            "weight": None if weights is None else float(weights[source]),
            "category": None if categories is None or categories[source] < 0 else CATEGORIES[int(categories[source])],
        }
        for source in np.argsort(-prompt, kind="stable")[:TOP_SOURCES].tolist()
    ]
    return {
        "step": int(row["step"]),
        "token": answer.tokens.texts[position],
        "position": position,
        "predicted_at": int(row.predicted_at),
        "probability": float(row.probability),
        "span": names[position],
        "prompt_share": float(prompt.sum()),
        "sources": sources,
        "shares": np.round(shares[:position], SHOWN_DIGITS).tolist(),
    }


def _attention(reading: Reading | None, query: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The weight of each key in a row, and the largest part of it.

    Heads count by how much of their layer's output they write: a head that has all its weight on one key and writes almost
    nothing shows nothing about that key.
    """
    if reading is None or reading.received is None:
        return None, None
    row = reading.received.sel(query=query)
    weight, *passed = (torch.from_numpy(row[stage].values) for stage in STAGES)
    category = torch.where(weight > 0, Cascade(*passed).category(weight), -1)
    return row.attention.values, category.numpy()
