"""How raw attention and certified contribution rank the heads that recall a planted sentence.

A sentence, the needle, is planted in a text. A language model recalls it by predicting its last word when the text ends with the
same sentence, and recall is the probability of that word. An encoder recalls it by being close to the question that the needle
answers: recall is the cosine of text and question minus the mean cosine of the text with the same question about other names.

For each head: the weight on the needle's tokens, and their contribution to the head's output, with certified bounds; in the row
that predicts the word, or for an encoder, whose output is a mean over positions, in a few rows outside the needle. Heads are
ranked by each of these, the first ones are ablated, and recall is measured again; random heads are the control.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import identiformer as idf
from identiformer.equations.attention.contributions import head_output_shares
from identiformer.figures.style import COLORS, MARKERS
from identiformer.measures.faithfulness.evidence import align
from identiformer.models import Model
from identiformer.models.interventions.head_ablation import Head, outputs_without_heads
from identiformer.texts import Example
from identiformer.texts.readers.evidence import NAMES, needle
from identiformer.trace import RecordedLayer
from studies.agreement import interval
from studies.tables import Row, column, markdown

EXAMPLES = 6
ABLATED = (1, 2, 4, 8, 16)
DRAWS = 3
"""Random rankings per needle."""
ROWS = 6
"""Rows of an encoder that are certified."""
RANKINGS = {
    "mass": "raw mass",
    "mass_low": "certified mass",
    "contribution": "contribution",
    "contribution_low": "certified contribution",
    "weighted_mass": "raw mass × head's share",
    "weighted": "certified contribution × head's share",
}
RANDOM = "random heads"
DRAWN = [*(RANKINGS[key] for key in ("mass", "contribution_low", "weighted_mass", "weighted")), RANDOM]
VARIABLES = {
    "mass_low": "set_low",
    "mass_high": "set_high",
    "contribution": "set_contribution",
    "contribution_low": "set_contribution_low",
    "contribution_high": "set_contribution_high",
}
HEAD_COLUMNS = ("mass", *VARIABLES, "share", "weighted_mass", "weighted")
TOP = 10
STATEMENT, QUESTION = "The secret word of", "What is the secret word of {}?"


@dataclass(frozen=True)
class Planted:
    """A text with a needle, and how to measure recall."""

    text: str
    needle: tuple[int, ...]
    """Positions of its tokens."""
    rows: tuple[int, ...]
    """Queries whose attention to the needle counts."""
    recall: Callable[[Tensor], float]
    """From the last hidden states (position width)."""


def measure(name: str, data: Path, needles: int) -> Iterator[Row]:
    """One row per needle and head, then one per needle, ranking and number of ablated heads; `data` is not needed."""
    model = idf.load(name)
    for number in range(needles):
        planted = _plant(model, needle(number), np.random.default_rng([3, number]))
        heads = list(_heads(model, planted))
        for head in heads:
            yield {"needle": number, "ranking": "", "ablated": "", "recall": "", **head}
        blank = dict.fromkeys(("layer", "head", *HEAD_COLUMNS), "")
        rankings = _rankings(heads, np.random.default_rng([4, number]))
        cases = [("intact", 0, []), *((title, count, order[:count]) for title, order in rankings for count in ABLATED)]
        outputs = outputs_without_heads(model, model.encode(planted.text, None, False), [ablated for _, _, ablated in cases])
        for (title, count, _), states in zip(cases, outputs, strict=True):
            yield {"needle": number, "ranking": title, "ablated": count, "recall": planted.recall(states), **blank}


def _plant(model: Model, example: Example, generator: np.random.Generator) -> Planted:
    ((secret, stop),), (first, _) = example.evidence or ((0, 0),), example.answer or (0, 0)
    tokens = model.tokens(example.text)
    start = example.text.rindex(STATEMENT, 0, secret)
    members = tuple(align([(start, stop + 1)], tokens, example.text).covered.nonzero()[:, 0].tolist())
    if not bool(model.trace("a b c").layer(1).visible.dense()[0].all()):  # causal
        position = tokens.holding(first) or 0
        return Planted(example.text, members, (position - 1,), _prediction(model, position - 1, tokens.ids[position]))
    text = example.text[: example.text.rindex(f" {STATEMENT}")]
    regular = [index for index, special in enumerate(model.tokens(text).special) if not special and index not in members]
    rows = tuple(sorted(generator.choice(regular, ROWS, replace=False).tolist()))
    return Planted(text, members, rows, _retrieval(model, example.text[start:].split()[4]))


def _prediction(model: Model, position: int, token: int) -> Callable[[Tensor], float]:
    """The probability of a token after a position; the logits are the products with the tied embedding."""
    embeddings = model.network.get_input_embeddings().weight.detach()
    return lambda states: float((embeddings @ states[position].to(embeddings)).softmax(-1)[token])


def _retrieval(model: Model, name: str) -> Callable[[Tensor], float]:
    """Cosine of the mean hidden vector with that of the question, minus its mean over questions about other names."""
    embeddings = {}
    for each in NAMES:
        states = outputs_without_heads(model, model.encode(QUESTION.format(each), None, False), [()])[0]
        embeddings[each] = torch.nn.functional.normalize(states.double().mean(0), dim=0)

    def recall(states: Tensor) -> float:
        text = torch.nn.functional.normalize(states.double().mean(0), dim=0)
        return float(text @ embeddings[name]) - float(np.mean([text @ embeddings[other] for other in NAMES if other != name]))

    return recall


def _heads(model: Model, planted: Planted) -> Iterator[Row]:
    """The weight on the needle and its contribution in each head, with certified bounds: means over the rows.

    Weights and contributions are shares of a head, however little it writes.
    """
    trace = model.trace(planted.text, form="weights")
    for layer in trace.stack().layers:
        shares = _shares(layer.recorded(), planted)
        for head in range(layer.heads):
            bounds = idf.ambiguity(
                trace, layer.number, head, queries=list(planted.rows), top=1, sets={"needle": planted.needle}, alternatives=False
            )
            numbers = {"mass": float(bounds.raw.isel(key=list(planted.needle)).sum("key").mean())}
            numbers |= {name: float(bounds[variable].mean()) for name, variable in VARIABLES.items()}
            yield {"layer": layer.number, "head": head, **numbers, **_weighted(numbers, shares[head])}


def _weighted(numbers: Row, share: float) -> Row:
    """Times the head's share of the layer's output; a head that writes against the layer's output counts as zero."""
    weights = {"weighted_mass": numbers["mass"] * max(share, 0), "weighted": numbers["contribution_low"] * max(share, 0)}
    return {"share": share, **weights}


def _shares(layer: RecordedLayer, planted: Planted) -> list[float]:
    """The share of each head in the layer's output, a mean over the rows."""
    weights = layer.weights[:, list(planted.rows)].double()
    return head_output_shares(weights, layer.values.double(), layer.projection).mean(1).tolist()


def _rankings(heads: list[Row], generator: np.random.Generator) -> Iterator[tuple[str, list[Head]]]:
    """The heads in the order of each ranking, and in random order."""
    names: list[Head] = [(int(row["layer"]), int(row["head"])) for row in heads]
    for key, title in RANKINGS.items():
        order = np.argsort(-np.nan_to_num(column(heads, key), nan=-np.inf), kind="stable")
        yield title, [names[index] for index in order]
    for _ in range(DRAWS):
        yield RANDOM, [names[index] for index in generator.permutation(len(names))]


def report(measured: dict[str, list[Row]], out: Path) -> str:
    """Draw recall and heads into needle.png; tables of recall, of the difference to raw mass, and of the heads."""
    figure = Figure(figsize=(3.9 * len(measured), 6.6), layout="constrained")
    panels = figure.subplots(2, len(measured), squeeze=False)
    recalls, differences = [], []
    for (model, rows), (top, bottom) in zip(measured.items(), panels.T, strict=True):
        intact = _recall(rows, "intact", 0)
        curves = {title: [_recall(rows, title, count) for count in ABLATED] for title in (*RANKINGS.values(), RANDOM)}
        for title, curve in curves.items():
            if title in DRAWN:
                _draw(top, DRAWN.index(title), title, [intact, *curve])
            recalls.append([model, str(len(intact)), title, *map(_mean_and_interval, (intact, *curve))])
            lost = [raw - other for raw, other in zip(curves[RANKINGS["mass"]], curve, strict=True)]
            differences.append([model, title, *map(_mean_and_interval, lost)])
        top.set_xticks(range(len(ABLATED) + 1), ["0", *map(str, ABLATED)])
        top.set(title=model, xlabel="ablated heads", ylabel="recall")
        top.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        heads = [row for row in rows if row["ranking"] == ""]
        bottom.scatter(column(heads, "mass"), column(heads, "contribution_low"), s=5, alpha=0.35, color=COLORS[0], linewidths=0)
        bottom.set(xlabel="raw mass on the needle", ylabel="certified contribution of the needle", ylim=(-0.5, 1.05))
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(out / "needle.png", dpi=130)
    counts = [f"{count} ablated" for count in ABLATED]
    return "\n\n".join(
        (
            markdown(("model", "needles", "ranking", "intact", *counts), recalls),
            "Recall after the same number of heads by raw mass, minus recall after the heads of this ranking:",
            markdown(("model", "ranking", *counts), [line for line in differences if line[1] != RANKINGS["mass"]]),
            _overlap(measured),
        )
    )


def _draw(ax: Axes, number: int, title: str, recalls: list[np.ndarray]) -> None:
    """Means over needles with bootstrap intervals, shifted a little so that they do not cover each other."""
    means, bounds = np.array([recall.mean() for recall in recalls]), np.array([interval(recall) for recall in recalls])
    at = np.arange(len(recalls)) + 0.06 * (number - 2)
    style = {"color": COLORS[number], "marker": MARKERS[number], "markersize": 4, "linewidth": 1.2, "elinewidth": 0.8}
    ax.errorbar(at, means, np.abs(bounds.T - means), label=title, **style)


def _mean_and_interval(values: np.ndarray) -> str:
    low, high = interval(values)
    return f"{values.mean():.3f} ({low:.3f} to {high:.3f})"


def _recall(rows: list[Row], title: str, count: int) -> np.ndarray:
    """Recall of each needle that was measured to the end, a mean over random draws."""
    chosen = [row for row in rows if row["ranking"] == title and row["ablated"] == count]
    return np.array([column([row for row in chosen if row["needle"] == number], "recall").mean() for number in _needles(rows)])


def _needles(rows: list[Row]) -> list[float]:
    """The needles that were measured to the end: random heads come last."""
    last = [row["needle"] for row in rows if row["ranking"] == RANDOM and row["ablated"] == ABLATED[-1]]
    return sorted(number for number in {*last} if last.count(number) == DRAWS)


def _overlap(measured: dict[str, list[Row]]) -> str:
    """One line per model: what the heads with the most raw mass have certified, and how alike the rankings are."""
    lines = []
    for model, rows in measured.items():
        shares: dict[str, list[float]] = {"mass": [], "low": [], "contribution": [], "overlap": []}
        for number in _needles(rows):
            heads = [row for row in rows if row["ranking"] == "" and row["needle"] == number]
            order = {key: np.argsort(-column(heads, key))[:TOP] for key in ("mass", "contribution_low")}
            shares["mass"].append(column(heads, "mass")[order["mass"]].mean())
            shares["low"].append(column(heads, "mass_low")[order["mass"]].mean())
            shares["contribution"].append(column(heads, "contribution_low")[order["mass"]].mean())
            shares["overlap"].append(len({*order["mass"]} & {*order["contribution_low"]}) / TOP)
        lines.append([model, *(f"{np.mean(values):.2f}" for values in shares.values())])
    names = ("raw mass", "certified mass", "certified contribution")
    return markdown(
        ("model", *(f"{name} of the {TOP} heads with the most raw mass" for name in names), "in both rankings"), lines
    )
