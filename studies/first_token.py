"""Why does everything attend to the first token? What its weight does in each layer of a language model.

In each layer, over the rows after the first: the weight on the first token, how much of it is certified in a few rows, what the
token contributes to the layer's output, and how long what it writes is. Then two interventions in all heads, in one layer and in
all layers together: *zeroed* takes away what the first token writes; *redistributed* gives its weight to the other keys of the
row, which multiplies what they write by 1/(1 - a). Both are judged by the next token, before and after. Texts are run as they are
and, if the tokenizer does not add one, with a begin-of-sequence (BOS) token in front.
"""

import html
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import identiformer as idf
from identiformer.equations import feasible_sets
from identiformer.equations.attention.contributions import layer_contributions
from identiformer.equations.attention.heads import group_of, per_head
from identiformer.figures.style import COLORS, finish_layers
from identiformer.measures.attention.ambiguity import default_tolerance
from identiformer.models import Model
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.replica import replica_of
from identiformer.report.reports import picture
from identiformer.texts import PASSAGE
from identiformer.trace import RecordedLayer
from studies.tables import Row, column, markdown

EXAMPLES = 1
TOKENS = 96
"""More than a head is wide, so that rows have a null space and certification means something."""
CERTIFIED_ROWS = (0.6, 0.8, 1.0)
"""Of the text's length: the rows whose weights are certified."""
ALL_LAYERS = 0
INTERVENTIONS = ("zeroed", "redistributed")


def measure(name: str, _: Path, examples: int) -> Iterator[Row]:
    """One row per text, BOS and layer, and one for all layers together, whose number is 0."""
    model = idf.load(name)
    ids = model.tokenizer(PASSAGE, add_special_tokens=False)["input_ids"]
    for number in range(examples):
        text = model.tokenizer.decode(ids[number * TOKENS // 2 :][:TOKENS])
        for bos, variant in _with_and_without_bos(model, text).items():
            for row in _layers(model, variant):
                yield {"text": number, "bos": bos, **row}


def _with_and_without_bos(model: Model, text: str) -> dict[str, str]:
    if model.tokens(text).special[0]:
        return {"with BOS": text}
    return {"with BOS": f"{model.tokenizer.bos_token or model.tokenizer.eos_token}{text}", "without BOS": text}


def _layers(model: Model, text: str) -> Iterator[Row]:
    trace = model.trace(text, form="weights")
    targets = torch.tensor(trace.stack().queries.ids[1:])
    intact = _distribution(model, text, None, None)
    layers = [layer.recorded() for layer in trace.stack().layers]
    for layer in (None, *layers):
        number = ALL_LAYERS if layer is None else layer.number
        row: Row = {"layer": number, "token": trace.stack().queries.texts[0], "loss": _loss(intact, targets)}
        row |= dict.fromkeys(("weight", "certified", "contribution", "length", "value_length"), float("nan"))
        row |= {} if layer is None else _of_layer(layer)
        for intervention in INTERVENTIONS:
            changed = _distribution(model, text, None if layer is None else number, intervention)
            row[f"loss_{intervention}"] = _loss(changed, targets)
            row[f"divergence_{intervention}"] = float((intact.exp() * (intact - changed)).sum(-1)[1:].mean())
            row[f"same_{intervention}"] = float((intact.argmax(-1) == changed.argmax(-1))[1:].double().mean())
        yield row


def _of_layer(layer: RecordedLayer) -> Row:
    """Means over heads and the rows after the first."""
    weights, values = layer.weights.double(), layer.values.double()
    written = per_head(values, layer.heads) @ layer.projection.double() if layer.projection is not None else values
    lengths = written.norm(dim=-1)
    output = torch.einsum("hqk,hkd->qd", weights, written)
    first = torch.einsum("hq,hd->qd", weights[:, :, 0], written[:, 0])
    return {
        "weight": float(weights[:, 1:, 0].mean()),
        "certified": _certified(layer),
        "contribution": float(layer_contributions(weights, values, layer.projection)[1:, 0].mean()),
        "length": float((first.norm(dim=-1) / output.norm(dim=-1))[1:].median()),
        "value_length": float((lengths[:, 0] / lengths[:, 1:].median(-1).values).mean()),
    }


def _certified(layer: RecordedLayer) -> float:
    """The share of the weight on the first token that every attention with the same output has, in a few rows of all heads."""
    rows = torch.tensor([int(share * (layer.weights.shape[1] - 1)) for share in CERTIFIED_ROWS])
    tolerance, weight, certified = default_tolerance(layer.values.dtype), 0.0, 0.0
    for head in range(layer.heads):
        values = layer.values[group_of(head, layer.heads, len(layer.values))]
        projection = None if layer.projection is None else layer.projection[head]
        chosen = layer.weights[head, rows]
        for query, _, feasible in feasible_sets(
            chosen, values, layer.visible.rows(rows), tolerance=tolerance, projection=projection, sink=layer.sink
        ):
            cost = -np.eye(1, len(feasible.row))[0]  # the first key is visible to every row
            certified += min(max(-feasible.bound(cost)[0], 0.0), float(chosen[query, 0]))
            weight += float(chosen[query, 0])
    return certified / weight


def _distribution(model: Model, text: str, layer: int | None, intervention: str | None) -> Tensor:
    """The logarithms of the next-token probabilities (position token), with an intervention in one layer or, for None, in all."""
    calls = 0

    def change(call: Call) -> Tensor | None:
        nonlocal calls
        calls += 1
        if intervention is None or layer not in (None, calls) or call.weights is None:
            return None
        others = call.weights.clone()
        others[:, :, 1:, 0] = 0  # the first row sees nothing else
        written = (others @ per_head(call.value, call.heads, 1)).transpose(1, 2)  # (batch query head width)
        if intervention == "zeroed":
            return written
        total = others.sum(-1).transpose(1, 2)[..., None]
        # Where the first token has all of the weight, there is nothing to give it to.
        return torch.where(total > 0, written / total, call.output)

    replica = replica_of(model.network)
    with recording(replica, WEIGHTS, change):
        logits = model.forward(replica, model.encode(text, None, False).inputs).logits[0]
    return logits.double().log_softmax(-1)


def _loss(distribution: Tensor, targets: Tensor) -> float:
    return float(-distribution[1:-1].gather(-1, targets[1:, None]).mean())


def report(measured: dict[str, list[Row]], out: Path) -> str:
    """Draw first_token.png and write first_token.html; the table of all models."""
    tables = []
    for model, rows in measured.items():
        _figure(model, rows).savefig(out / "first_token.png", dpi=130)
        (out / "first_token.html").write_text(page(model, rows), encoding="utf-8")
        tables += ["\n".join(findings(model, rows)), markdown(*_table(rows))]
    return "\n\n".join(tables)


def _chosen(rows: list[Row], bos: str, layers: bool) -> list[Row]:
    return [row for row in rows if row["bos"] == bos and (row["layer"] != ALL_LAYERS) == layers]


def _variants(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["bos"] for row in rows))


def findings(model: str, rows: list[Row]) -> list[str]:
    """What the first token does, in sentences with numbers."""
    sentences = []
    for bos in _variants(rows):
        layers, together = _chosen(rows, bos, True), _chosen(rows, bos, False)
        mean = {name: column(layers, name).mean() for name in ("weight", "certified", "contribution", "value_length")}
        loss = {name: column(together, name).mean() for name in ("loss", "loss_zeroed", "loss_redistributed")}
        sentences.append(
            f"{bos}, {model} puts {mean['weight']:.0%} of its attention on the first token. {mean['certified']:.0%} of that is "
            f"certified. The token contributes {mean['contribution']:.0%} of what attention writes; what it writes per weight is "
            f"{mean['value_length']:.2f} times as long as that of other tokens."
        )
        sentences.append(
            f"Without what it writes, in all layers at once, the loss of the next token goes from {loss['loss']:.2f} to "
            f"{loss['loss_zeroed']:.2f} nats; with its weight given to the other tokens it goes to "
            f"{loss['loss_redistributed']:.2f}."
        )
    return sentences


def _figure(model: str, rows: list[Row]) -> Figure:
    bos = _variants(rows)[0]
    layers = _chosen(rows, bos, True)
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.9, 1))
    numbers = sorted({int(row["layer"]) for row in layers})
    for name, label, color in (
        ("weight", "attention weight on it", COLORS[0]),
        ("contribution", "its share of what attention writes", COLORS[1]),
    ):
        means = [column([row for row in layers if row["layer"] == number], name).mean() for number in numbers]
        left.plot(numbers, means, color=color, linewidth=2.2, label=label)
        left.fill_between(numbers, 0, means, color=color, alpha=0.15)
    left.axhline(0, color="0.6", linewidth=0.8)
    finish_layers(left, "mean over heads and tokens")
    left.legend(frameon=False, fontsize=10)
    weight, contribution = (column(layers, name).mean() for name in ("weight", "contribution"))
    title = f"The first token gets {weight:.0%} of the attention of {model} and contributes {contribution:.0%}"
    figure.suptitle(title, fontsize=12, x=0.01, ha="left", parse_math=False)
    names = ("loss", "loss_zeroed", "loss_redistributed")
    values = [column(_chosen(rows, bos, False), name).mean() for name in names]
    bars = right.bar(("intact", "what it\nwrites\nremoved", "its weight\ngiven to\nothers"), values, color=["0.6", *COLORS[1:3]])
    right.bar_label(bars, [f"{value:.2f}" for value in values], fontsize=10)
    right.set_ylabel("next-token loss (nats), all layers")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _table(rows: list[Row]) -> tuple[tuple[str, ...], list[list[str]]]:
    names = ("weight", "certified", "contribution", "length", "value_length")
    changes = [f"{what}_{how}" for what in ("divergence", "same") for how in INTERVENTIONS]
    header = (
        "", "layer", "weight", "certified", "contribution", "length of what it writes", "per weight, to other tokens",
        "KL, zeroed", "KL, redistributed", "same token, zeroed", "same token, redistributed",
    )  # fmt: skip
    lines = []
    for bos in _variants(rows):
        for number in sorted({int(row["layer"]) for row in rows}):
            chosen = [row for row in rows if row["bos"] == bos and row["layer"] == number]
            shares = ["–" if number == ALL_LAYERS else f"{column(chosen, name).mean():.2f}" for name in names]
            changed = [f"{column(chosen, name).mean():.3f}" for name in changes]
            lines.append([bos, "all" if number == ALL_LAYERS else str(number), *shares, *changed])
    return header, lines


def page(model: str, rows: list[Row]) -> str:
    """The findings as one HTML file."""
    header, lines = _table(rows)
    title = html.escape(f"Why does everything attend to the first token? {model}")
    cells = [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines]
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
            "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
            "td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}"
            "table{border-collapse:collapse;font-size:.85rem}"
            "img{max-width:100%}</style>",
            f"<h1>{title}</h1>",
            *(f"<p>{html.escape(sentence)}</p>" for sentence in findings(model, rows)),
            f'<p><img alt="Weight on the first token and its contribution, by layer" src="{picture(_figure(model, rows))}"></p>',
            f"<table><tr>{''.join(f'<th>{html.escape(name)}</th>' for name in header)}</tr>",
            *cells,
            "</table></html>",
        ]
    )
