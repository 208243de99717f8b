"""The summary of a run over a corpus, as a page of Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from identiformer.measures.corpus import Failure
from identiformer.results.schema import first_middle_last

SHOWN_FAILURES = 20


@dataclass(frozen=True)
class Table:
    """The results of one measure."""

    measure: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def title(self) -> str:
        return self.measure.replace("_", " ").capitalize()

    def markdown(self) -> list[str]:
        lines = (self.header, ("---",) * len(self.header), *self.rows)
        return [f"## {self.title}", "", self.note, "", *(f"| {' | '.join(cells)} |" for cells in lines), ""]


def tables_of(results: Mapping[str, xr.Dataset]) -> list[Table]:
    """Make one table per measure."""
    return [Table(name, *TABLES[name](result)) for name, result in results.items() if name in TABLES]


def summarize(
    settings: Mapping[str, Any], provenance: Mapping[str, str], results: Mapping[str, xr.Dataset], failures: Sequence[Failure]
) -> str:
    """Write the summary: what was measured and what was left out, one table per measure, and where the numbers come from."""
    title = f"# {provenance['model']} over {provenance['corpus']}"
    lines = [title, "", *findings(results), "", *counts(settings, results.get("texts"), failures), ""]
    for table in tables_of(results):
        lines += table.markdown()
    lines += [
        "## Provenance",
        "",
        f"- model {provenance['model']} ({settings['architecture']}, {settings['dtype']}), revision {settings['revision']}",
        f"- corpus {provenance['corpus']}, {settings['examples']} examples, {settings['corpus_hash']}",
        f"- maximum length {settings['max_length'] or 'of the model'}, seed {settings['seed']}, part {settings['part']}",
        f"- {', '.join(f'{package} {number}' for package, number in settings['versions'].items())}",
    ]
    return "\n".join(lines) + "\n"


def findings(results: Mapping[str, xr.Dataset]) -> list[str]:
    """What a run found, in one sentence per measure that has one."""
    return [FINDINGS[name](result) for name, result in results.items() if name in FINDINGS]


def _share(values: xr.DataArray) -> str:
    return f"{float(values.mean()):.0%}"


def _effective_finding(result: xr.Dataset) -> str:
    return (
        f"A row of attention has {float(result.nullity.mean()):.0f} dimensions on average that its head's output does not "
        f"determine; raw and effective attention correlate at {float(result.correlation.mean()):.2f}."
    )


def _identifiability_finding(result: xr.Dataset) -> str:
    return (
        f"The output of a head determines {_share(result.identified_on_simplex)} of all rows among attention distributions, and "
        f"{_share(result.identified)} among all rows."
    )


def _attribution_finding(result: xr.Dataset) -> str:
    medians = result.self_contribution_quantiles.sel(quantile=0.5)
    return (
        f"The median self-contribution of a token is {float(medians[0]):.0%} at layer {int(result['layer'][0])} and "
        f"{float(medians[-1]):.0%} at layer {int(result['layer'][-1])}, where {_share(result.not_own_main[-1])} of the tokens "
        "have another token as their main contributor."
    )


def _ambiguity_finding(result: xr.Dataset) -> str:
    return f"In {_share(result.certified)} of the rows that were drawn, the largest weight is certified to be the largest."


def _reading_finding(result: xr.Dataset) -> str:
    tail = "" if bool(result.readable.isnull().any()) else f", and {_share(result.readable)} is also about the token it points to"
    return (
        f"Of the attention, {_share(result.certified)} is certified, {_share(result.contributing)} also contributes to what its "
        f"head writes{tail}; {_share(result.sink_share)} is on attention sinks."
    )


FINDINGS: dict[str, Callable[[xr.Dataset], str]] = {
    "reading": _reading_finding,
    "effective_attention": _effective_finding,
    "attention_identifiability": _identifiability_finding,
    "ambiguity": _ambiguity_finding,
    "token_attribution": _attribution_finding,
}


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


Content = tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]
"""The note, the header and the rows of a table."""


def _by_layer(note: str, result: xr.Dataset, columns: Mapping[str, Callable[[xr.Dataset], str]]) -> Content:
    rows = ((str(int(layer)), *(cell(result.sel(layer=layer)) for cell in columns.values())) for layer in result["layer"].values)
    return note, ("layer", *columns), tuple(rows)


def _mean(name: str, form: str, **select: str) -> Callable[[xr.Dataset], str]:
    def cell(layer: xr.Dataset) -> str:
        values = layer[name].sel(select).values
        return format(float(np.nanmean(values)), form) if np.isfinite(values).any() else "—"

    return cell


def _quantile(name: str, level: float) -> Callable[[xr.Dataset], str]:
    return lambda layer: f"{float(layer[name].sel(quantile=level)):.3f}"


def _effective_attention(result: xr.Dataset) -> Content:
    columns = {
        "null mass": _mean("null_mass", ".1%"),
        "correlation": _mean("correlation", ".3f"),
        "nullity": _mean("nullity", ".1f"),
    }
    for kind in result["kind"].values:
        for name in ("raw", "effective"):
            columns[f"{name} to {kind}"] = _mean(f"{name}_received", ".1%", kind=kind)
    return _by_layer("Means over heads and texts.", result, columns)


def _attention_identifiability(result: xr.Dataset) -> Content:
    columns = {
        "rank": _mean("rank", ".1f"),
        "nullity": _mean("nullity", ".1f"),
        "identifiable rows": _mean("identified", ".1%"),
        "identifiable as attention": _mean("identified_on_simplex", ".1%"),
    }
    return _by_layer("Means over heads and rows.", result, columns)


def _token_attribution(result: xr.Dataset) -> Content:
    columns = {
        "self-contribution: median": _quantile("self_contribution_quantiles", 0.5),
        "first quartile": _quantile("self_contribution_quantiles", 0.25),
        "third": _quantile("self_contribution_quantiles", 0.75),
        "not own main contributor": _mean("not_own_main", ".1%"),
    }
    error = float(result.distribution_error.mean())
    note = f"Over tokens; quantiles to ±{float(result.quantile_error):.2%}; error of the estimated distributions {error:.1%}."
    return _by_layer(note, result, columns)


def _self_contribution_by_tag(result: xr.Dataset) -> Content:
    medians = result.self_contribution_quantiles.sel(quantile=0.5)
    layers = result["layer"].values
    shown = first_middle_last(layers)
    present = result["tag"].values[result.tokens.values > 0]
    ordered = sorted(present, key=lambda tag: -float(medians.sel(layer=layers[-1], tag=tag)))
    note = f"Medians over the tokens of each tag, to ±{float(result.quantile_error):.2%}."
    rows = (
        (str(tag), str(int(result.tokens.sel(tag=tag))), *(f"{float(medians.sel(layer=layer, tag=tag)):.3f}" for layer in shown))
        for tag in ordered
    )
    return note, ("tag", "tokens", *(f"layer {layer}" for layer in shown)), tuple(rows)


def _ambiguity(result: xr.Dataset) -> Content:
    columns = {
        "rows": _mean("rows", ".0f"),
        "largest weight certified": _mean("certified", ".1%"),
        "its interval: median width": _quantile("width_quantiles", 0.5),
        "mean": _mean("width", ".3f"),
    }
    return _by_layer("One random row per layer of every text.", result, columns)


def _reading(result: xr.Dataset) -> Content:
    columns = {
        "certified": _mean("certified", ".1%"),
        "and contributing": _mean("contributing", ".1%"),
        "and own content": _mean("readable", ".1%"),
        "on sinks": _mean("sink_share", ".1%"),
    }
    return _by_layer("Shares of the attention weight, means over heads and texts.", result, columns)


def _faithfulness(result: xr.Dataset) -> Content:
    """Scores of maps on all yardsticks; of explanations where there are no maps. The page of a comparison has both."""
    row, column, score = ("map", "yardstick", "score")
    if not result.sizes[column]:
        row, column, score = ("explanation", "explanation_yardstick", "explanation_score")
    rows = (
        (str(title), *(f"{value:.2f}" if np.isfinite(value) else "—" for value in values))
        for title, values in zip(result[f"{row}_title"].values, result[score].transpose(row, column).values, strict=True)
    )
    names = map(str, result[column].values)
    return "Means over layers and examples; intervals are in the result.", (row, *names), tuple(rows)


TABLES: dict[str, Callable[[xr.Dataset], Content]] = {
    "effective_attention": _effective_attention,
    "attention_identifiability": _attention_identifiability,
    "token_attribution": _token_attribution,
    "self_contribution_by_tag": _self_contribution_by_tag,
    "ambiguity": _ambiguity,
    "reading": _reading,
    "faithfulness": _faithfulness,
}
