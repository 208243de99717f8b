"""A run over a corpus in words, tables and figures: in its report, and as a page of Markdown."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from identiformer.figures.saving import CORPUS_FIGURES
from identiformer.measures.corpus import Failure
from identiformer.readings.blocks import Block, Figure, Row, Sentences, Table
from identiformer.results.schema import first_middle_last


def findings(results: Mapping[str, xr.Dataset]) -> list[str]:
    """What a run found, in one sentence per measure that has one."""
    return [FINDINGS[name](result) for name, result in results.items() if name in FINDINGS]


def _share(values: xr.DataArray) -> str:
    return f"{float(values.mean()):.0%}"


def _attribution_finding(result: xr.Dataset) -> str:
    medians = result.self_contribution_quantiles.sel(quantile=0.5)
    return (
        f"The median self-contribution of a token is {float(medians[0]):.0%} at layer {int(result['layer'][0])} and "
        f"{float(medians[-1]):.0%} at layer {int(result['layer'][-1])}, where {_share(result.not_own_main[-1])} of the tokens "
        "have another token as their main contributor."
    )


def _reading_finding(result: xr.Dataset) -> str:
    unknown = bool(result.readable.isnull().any())
    tail = "" if unknown else f", and {_share(result.readable)} is also attributed to the token it points to"
    return (
        f"Of the attention, {_share(result.certified)} is certified, {_share(result.contributing)} also contributes to what its "
        f"head writes{tail}; {_share(result.sink_share)} is on attention sinks."
    )


FINDINGS: dict[str, Callable[[xr.Dataset], str]] = {
    "reading": _reading_finding,
    "effective_attention": lambda result: (
        f"A row of attention has {float(result.nullity.mean()):.0f} dimensions on average that its head's output does not "
        f"determine; raw and effective attention correlate at {float(result.correlation.mean()):.2f}."
    ),
    "attention_identifiability": lambda result: (
        f"The output of a head determines {_share(result.identified_on_simplex)} of all rows among attention distributions, and "
        f"{_share(result.identified)} among all rows."
    ),
    "ambiguity": lambda result: (
        f"In {_share(result.certified)} of the rows that were drawn, the largest weight is certified to be the largest."
    ),
    "token_attribution": _attribution_finding,
}


Column = Callable[[xr.Dataset], str]
"""From the results of one layer to a cell."""
Content = tuple[str, Sequence[Row]]
"""The note and the rows of a table."""


def tables_of(results: Mapping[str, xr.Dataset]) -> dict[str, Table]:
    """Make one table per measure."""
    found = {name: TABLES[name](result) for name, result in results.items() if name in TABLES}
    return {name: Table(name.replace("_", " ").capitalize(), rows, (note,)) for name, (note, rows) in found.items()}


def _by_layer(note: str, columns: Mapping[str, Column]) -> Callable[[xr.Dataset], Content]:
    def content(result: xr.Dataset) -> Content:
        layers = result["layer"].values
        return note, [
            {"layer": str(layer), **{name: cell(result.sel(layer=layer)) for name, cell in columns.items()}} for layer in layers
        ]

    return content


def _mean(name: str, form: str, **select: str) -> Column:
    def cell(layer: xr.Dataset) -> str:
        values = layer[name].sel(select).values
        return format(float(np.nanmean(values)), form) if np.isfinite(values).any() else "—"

    return cell


def _quantile(name: str, level: float) -> Column:
    return lambda layer: f"{float(layer[name].sel(quantile=level)):.3f}"


def _effective_attention(result: xr.Dataset) -> Content:
    columns = {
        "null mass": _mean("null_mass", ".1%"),
        "correlation": _mean("correlation", ".3f"),
        "nullity": _mean("nullity", ".1f"),
    }
    for kind in result["kind"].values:
        raw, effective = (_mean(f"{name}_received", ".1%", kind=kind) for name in ("raw", "effective"))
        columns[f"to {kind}"] = lambda layer, raw=raw, effective=effective: f"{raw(layer)} {effective(layer)}"
    return _by_layer("Means over heads and texts; of attention to some tokens: raw, effective.", columns)(result)


def _token_attribution(result: xr.Dataset) -> Content:
    columns = {
        "self-contribution: median": _quantile("self_contribution_quantiles", 0.5),
        "first quartile": _quantile("self_contribution_quantiles", 0.25),
        "third": _quantile("self_contribution_quantiles", 0.75),
        "not own main contributor": _mean("not_own_main", ".1%"),
    }
    error = float(result.distribution_error.mean())
    note = f"Over tokens; quantiles to ±{float(result.quantile_error):.2%}; error of the estimated distributions {error:.1%}."
    return _by_layer(note, columns)(result)


def _self_contribution_by_tag(result: xr.Dataset) -> Content:
    medians = result.self_contribution_quantiles.sel(quantile=0.5)
    layers = result["layer"].values
    present = result["tag"].values[result.tokens.values > 0]
    rows: list[Row] = [
        {
            "tag": str(tag),
            "tokens": str(int(result.tokens.sel(tag=tag))),
            **{f"layer {layer}": f"{float(medians.sel(layer=layer, tag=tag)):.3f}" for layer in first_middle_last(layers)},
        }
        for tag in sorted(present, key=lambda tag: -float(medians.sel(layer=layers[-1], tag=tag)))
    ]
    return f"Medians over the tokens of each tag, to ±{float(result.quantile_error):.2%}.", rows


def _faithfulness(result: xr.Dataset) -> Content:
    """Scores of maps on all yardsticks; of explanations where there are no maps. The page of a comparison has both."""
    row, column, score = ("map", "yardstick", "score")
    if not result.sizes[column]:
        row, column, score = ("explanation", "explanation_yardstick", "explanation_score")
    rows: list[Row] = [
        {row: str(title), **{str(one[column].values): _score(float(one)) for one in scores}}
        for title, scores in zip(result[f"{row}_title"].values, result[score].transpose(row, column), strict=True)
    ]
    return "Means over layers and examples; intervals are in the result.", rows


def _score(score: float) -> str:
    return f"{score:.2f}" if np.isfinite(score) else "—"


TABLES: dict[str, Callable[[xr.Dataset], Content]] = {
    "effective_attention": _effective_attention,
    "attention_identifiability": _by_layer(
        "Means over heads and rows.",
        {
            "rank": _mean("rank", ".1f"),
            "nullity": _mean("nullity", ".1f"),
            "identifiable rows": _mean("identified", ".1%"),
            "identifiable as attention": _mean("identified_on_simplex", ".1%"),
        },
    ),
    "token_attribution": _token_attribution,
    "self_contribution_by_tag": _self_contribution_by_tag,
    "ambiguity": _by_layer(
        "One random row per layer of every text.",
        {
            "rows": _mean("rows", ".0f"),
            "largest weight certified": _mean("certified", ".1%"),
            "its interval: median width": _quantile("width_quantiles", 0.5),
            "mean": _mean("width", ".3f"),
        },
    ),
    "reading": _by_layer(
        "Shares of the attention weight, means over heads and texts.",
        {
            "certified": _mean("certified", ".1%"),
            "and contributing": _mean("contributing", ".1%"),
            "and attributed to the token": _mean("readable", ".1%"),
            "on sinks": _mean("sink_share", ".1%"),
        },
    ),
    "faithfulness": _faithfulness,
}


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
