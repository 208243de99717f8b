"""A run over a corpus as blocks, for its report, and as a page of Markdown."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from identiformer.figures.saving import CORPUS_FIGURES
from identiformer.measures.corpus import Failure
from identiformer.readings.blocks import Block, Figure, Sentences, Table
from identiformer.readings.corpus.findings import findings
from identiformer.readings.corpus.tables import tables_of

SHOWN_FAILURES = 20
CAPTIONS = {
    "comparison": "Score of each map on each yardstick, mean over layers, with its 95% interval over examples. The dotted line "
    "is raw attention.",
    "comparison_by_layer": "The same layer by layer, for raw attention and the maps that score highest.",
    "comparison_of_explanations": "Score of each explanation of the output, with its 95% interval over examples.",
}
"""Of the figures whose names are not enough."""


def run_blocks(settings: Mapping[str, Any], results: Mapping[str, xr.Dataset], failures: Sequence[Failure]) -> list[Block]:
    """What was measured and left out, and the table and figures of each measure."""
    return [
        Sentences("What was measured", counts(settings, results.get("texts"), failures)),
        *(block for name, table in tables_of(results).items() for block in (table, *figures_of(name, results[name]))),
    ]


def figures_of(measure: str, result: xr.Dataset) -> list[Figure]:
    """The figures that show the result of a measure over a corpus."""
    return [
        Figure(CAPTIONS.get(name, name.replace("_", " ").capitalize()), partial(draw, result))
        for name, (drawn, draw) in CORPUS_FIGURES.items()
        if drawn == measure
    ]


def summarize(
    settings: Mapping[str, Any], provenance: Mapping[str, str], results: Mapping[str, xr.Dataset], failures: Sequence[Failure]
) -> str:
    """Write the summary: what was measured and what was left out, one table per measure, and where the numbers come from."""
    title = f"# {provenance['model']} over {provenance['corpus']}"
    lines = [title, "", *findings(results), "", *counts(settings, results.get("texts"), failures), ""]
    for table in tables_of(results).values():
        lines += _markdown(table)
    lines += [
        "## Provenance",
        "",
        f"- model {provenance['model']} ({settings['architecture']}, {settings['dtype']}), revision {settings['revision']}",
        f"- corpus {provenance['corpus']}, {settings['examples']} examples, {settings['corpus_hash']}",
        f"- maximum length {settings['max_length'] or 'of the model'}, seed {settings['seed']}, part {settings['part']}",
        f"- {', '.join(f'{package} {number}' for package, number in settings['versions'].items())}",
    ]
    return "\n".join(lines) + "\n"


def _markdown(table: Table) -> list[str]:
    rows = (table.header, ["---"] * len(table.header), *table.cells)
    return [f"## {table.title}", "", *table.notes, "", *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def counts(settings: Mapping[str, Any], texts: xr.Dataset | None, failures: Sequence[Failure]) -> list[str]:
    """State how much was measured, how many texts were truncated, and which examples failed."""
    lines = []
    if texts is not None:
        number, tokens = int(texts.examples), int(texts.tokens)
        lengths = np.flatnonzero(texts.lengths.values)
        pairs = {0: "single texts", number: "pairs"}.get(int(texts.pairs), f"{int(texts.pairs)} of them pairs")
        lines.append(
            f"{number} examples ({pairs}), {tokens} tokens: {tokens / number:.1f} per example, from {lengths[0]} to {lengths[-1]}"
            f"{' or more' if lengths[-1] == len(texts.lengths) - 1 else ''}."
        )
        lines.append(_cut(int(texts.cut), int(texts.long_words), settings["max_length"]))
    if "generation" in settings:
        lines.append(_answered(settings["generation"]))
    failed = len({failure.example for failure in failures})
    lines.append(f"**{failed} examples failed**; all are in failures.jsonl:" if failed else "No example failed.")
    shown = [f"- example {failure.example}, {failure.what}: {failure.error}" for failure in failures[:SHOWN_FAILURES]]
    return [*lines, *([""] if shown else []), *shown]


def _answered(generation: Mapping[str, Any]) -> str:
    system = " with a system message" if generation["system"] is not None else ""
    chat = f", in its chat template{system}" if generation["chat"] else ""
    return (
        f"The model answered each text in up to {generation['max_new_tokens']} tokens{chat}; all results are of prompts and "
        "answers."
    )


def _cut(cut: int, long_words: int, max_length: int | None) -> str:
    if not cut:
        return "None of them was truncated."
    if not long_words:
        return f"{cut} of them were truncated to {max_length} tokens."
    others = f", and {cut - long_words} others were truncated to {max_length} tokens" if cut > long_words else ""
    return f"{cut} of them were truncated: {long_words} have words too long for the tokenizer, each now an unknown token{others}."
