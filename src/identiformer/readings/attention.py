"""The blocks of a reading: what the attention of a text may be taken to mean, as every shell shows it."""

from dataclasses import asdict
from functools import partial
from typing import Any

from identiformer.figures import draw_intervals, draw_layer_summary
from identiformer.figures.idle import draw_idle
from identiformer.figures.reading import draw_cascade, draw_readable_map
from identiformer.readings.blocks import Block, Figure, Sentences, Table
from identiformer.readings.effective import describe_head, effective_as_json, effective_sentences, head_sentence
from identiformer.readings.heads import categories_sentence
from identiformer.readings.patterns import pattern_sentence, patterns_as_json
from identiformer.readings.reading import FAILURES, Reading, TableRow, sink_sentences
from identiformer.readings.sentences.certificate import certificate_as_json, certificate_sentences
from identiformer.readings.sentences.output import LEGEND as WEIGHT_LEGEND
from identiformer.readings.sentences.output import output_as_json, settings_of, weight_rows
from identiformer.readings.tables import cascade_rows, statement_rows
from identiformer.typed_json import finite_or_null

LEGEND = (
    "head: layer.head; query → key: the token at the first position attends to the one at the second",
    "output: the share of what the head writes that comes from the key",
    "self-contribution: the share of the key's vector attributed to its own token, by norms of derivatives",
)
"""Of the tables of statements."""


def reading_blocks(reading: Reading) -> list[Block]:
    """The findings of a reading, the most important first."""
    lines, largest = [*reading.overview(), categories_sentence(reading.result)], reading.result.largest_certified
    if bool(largest.notnull().any()):
        lines.append(
            f"In {float(largest.mean()):.0%} of the rows of these heads the largest weight is certified to be the largest."
        )
    return [
        *_dependence(reading),
        Sentences("", lines),
        *_parts(reading),
        *_statements(reading),
        *_effective(reading),
        *_certificates(reading),
    ]


def _dependence(reading: Reading) -> list[Block]:
    """What the output depends on."""
    blocks: list[Block] = []
    if sentences := reading.dependence():
        blocks.append(Sentences("", sentences))
    if reading.idle is not None:
        caption = "How much of the attention of each head is idle, and how much of what the output depends on goes through it"
        blocks.append(Figure(caption, partial(draw_idle, reading.idle, reading.strongest)))
    if reading.strongest is not None and (rows := weight_rows(reading.strongest)):
        blocks.append(
            Table(
                f"Weights that matter most for {settings_of(reading.strongest)['objective']}",
                rows,
                WEIGHT_LEGEND[: 3 if "token" in rows[0] else 2],
            )
        )
    return blocks


def _parts(reading: Reading) -> list[Block]:
    """How much of the weight passes each test, and the sinks."""
    blocks: list[Block] = []
    if bool(reading.result.certified.notnull().any()):  # not if certification was interrupted at once
        caption = "Share of each layer's attention that is readable, mixed, noncontributing and free"
        blocks.append(Figure(caption, partial(draw_cascade, reading.result)))
    if (shown := reading.shown) is not None:
        layer, head = (int(shown[axis][0]) for axis in ("layer", "head"))
        caption = f"Attention of layer {layer}, head {head}, which is shown as an example, and what passes all tests"
        blocks.append(Figure(caption, lambda: draw_readable_map(shown, layer, head)[0]))
    if reading.sinks:
        lines = [line for sink in reading.sinks for line in sink_sentences(sink, reading.certified)]
        blocks.append(Sentences("Attention sinks", lines))
    note = "writes: the share of the layer's output that the head writes"
    return [*blocks, Table("Weight that passes each test", cascade_rows(reading), (note,))]


def _statements(reading: Reading) -> list[Block]:
    reasons = tuple(f"{FAILURES[name]}." for name in dict.fromkeys(each.category for each in reading.failing))
    tables = (("pass all tests best", reading.holding, ()), ("fail a test", reading.failing, reasons))
    blocks: list[Block] = [
        Table(f"Statements that {title}", statement_rows(statements, reading.certified), notes)
        for title, statements, notes in tables
        if statements
    ]
    return [*blocks, Sentences("", LEGEND)] if blocks else []


def _effective(reading: Reading) -> list[Block]:
    """Effective attention, and the patterns that heads follow."""
    blocks, result = [], reading.effective
    if result is not None:
        heads = [head_sentence(head) for head in (describe_head(result, *name) for name in reading.described) if head["nullity"]]
        sentences = effective_sentences(result, reading.width, **reading.chosen)
        blocks.append(Sentences("Effective attention", [*sentences, *heads]))
        if "correlation" in result:
            blocks.append(Figure("Effective attention by layer", partial(draw_layer_summary, result)))
    if reading.patterns is not None:
        blocks.append(Sentences("Patterns", [pattern_sentence(reading.patterns)]))
    return blocks


def _certificates(reading: Reading) -> list[Block]:
    blocks: list[Block] = []
    for one in reading.certificates:
        row = int(one["query"][0]), one.patched_alternative.item()
        blocks.append(Sentences("Certificate", certificate_sentences(one)))
        blocks.append(Figure("Certified intervals of the weights of one row", partial(draw_intervals, one, *row)))
    return blocks


def reading_as_json(reading: Reading) -> dict[str, Any]:
    """The findings as JSON data: those of `reading`, of effective attention, certificates and patterns."""
    names, result = (*TableRow.SHARES, "sink_scale", "sink_key", "largest_certified"), reading.result
    sinks = [{**vars(sink), "effects": _numbers(sink.effects)} for sink in reading.sinks]
    shares = {
        "sentences": reading.sentences(),
        "interrupted": reading.interrupted,
        "layers": result["layer"].values.tolist(),
        "heads": {name: result[name].values for name in names},
        "sinks": sinks,
        "holding": [asdict(statement) for statement in reading.holding],
        "failing": [asdict(statement) for statement in reading.failing],
    }
    found: dict[str, Any] = {"reading": finite_or_null(shares)}
    if reading.idle is not None or reading.strongest is not None:
        found["output"] = finite_or_null(output_as_json(reading.strongest, reading.idle))
    if reading.effective is not None:
        found |= effective_as_json(reading.effective, reading.width, **reading.chosen)
    if reading.certificates:
        found["certificates"] = [certificate_as_json(one) for one in reading.certificates]
    return found if reading.patterns is None else {**found, "patterns": patterns_as_json(reading.patterns)}


def _numbers(effects: Any) -> dict[str, Any] | None:
    return None if effects is None else {name: number.item() for name, number in effects.data_vars.items()}
