"""What a person should know of a run, as a page of Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from identiformer.runs.settings import Settings
from identiformer.runs.shard_file import Failure

SHOWN_FAILURES = 20


@dataclass(frozen=True)
class Table:
    """What one measure found."""

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
    """A table for each measure."""
    return [Table(name, *TABLES[name](result)) for name, result in results.items() if name in TABLES]


def summarize(
    settings: Settings, provenance: Mapping[str, str], results: Mapping[str, xr.Dataset], failures: Sequence[Failure]
) -> str:
    """Where the numbers come from, what was left out, and a table for each measure."""
    lines = [f"# {provenance['model']} over {provenance['corpus']}", "", *counts(settings, results.get("texts"), failures), ""]
    for table in tables_of(results):
        lines += table.markdown()
    lines += [
        "## Where this comes from",
        "",
        f"- model {provenance['model']} ({settings.architecture}, {settings.dtype}), revision {settings.revision}",
        f"- corpus {provenance['corpus']}, {settings.examples} examples, {settings.corpus_hash}",
        f"- largest length {settings.max_length or 'as the model has it'}, seed {settings.seed}, part {settings.part}",
        f"- {', '.join(f'{package} {number}' for package, number in settings.versions.items())}",
    ]
    return "\n".join(lines) + "\n"


def counts(settings: Settings, texts: xr.Dataset | None, failures: Sequence[Failure]) -> list[str]:
    """How much was measured, what was cut, and what failed."""
    lines = []
    if texts is not None:
        number, tokens = int(texts.examples), int(texts.tokens)
        lengths = np.flatnonzero(texts.lengths.values)
        kind = {0: "single texts", number: "pairs"}.get(int(texts.pairs), f"{int(texts.pairs)} pairs among them")
        lines.append(
            f"{number} examples ({kind}), {tokens} tokens: {tokens / number:.1f} each, from {lengths[0]} to {lengths[-1]}"
            f"{' or more' if lengths[-1] == len(texts.lengths) - 1 else ''}."
        )
        lines.append(_cut(int(texts.cut), int(texts.long_words), settings.max_length))
    failed = len({failure.example for failure in failures})
    lines.append(f"**{failed} examples failed**; all are in failures.jsonl:" if failed else "No example failed.")
    shown = [f"- example {each.example}, {each.what}: {each.error}" for each in failures[:SHOWN_FAILURES]]
    return [*lines, *([""] if shown else []), *shown]


def _cut(cut: int, long_words: int, max_length: int | None) -> str:
    if not cut:
        return "None of them was cut."
    if not long_words:
        return f"{cut} of them were cut to {max_length} tokens."
    others = f", and {cut - long_words} others were cut to {max_length} tokens" if cut > long_words else ""
    return f"{cut} of them were cut: {long_words} have words too long for the tokenizer, each one unknown token now{others}."


Content = tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]
"""A note, a header and rows."""


def _by_layer(note: str, result: xr.Dataset, columns: Mapping[str, Callable[[xr.Dataset], str]]) -> Content:
    rows = ((str(int(layer)), *(cell(result.sel(layer=layer)) for cell in columns.values())) for layer in result["layer"].values)
    return note, ("layer", *columns), tuple(rows)


def _mean(name: str, form: str, **select: str) -> Callable[[xr.Dataset], str]:
    def cell(one: xr.Dataset) -> str:
        values = one[name].sel(select).values
        return format(float(np.nanmean(values)), form) if np.isfinite(values).any() else "—"

    return cell


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
        "rows that the output tells": _mean("identified", ".1%"),
        "among attention": _mean("identified_on_simplex", ".1%"),
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
    note = f"Over tokens; quantiles to ±{float(result.quantile_error):.2%}; estimated shares err by {error:.1%} as distributions."
    return _by_layer(note, result, columns)


def _self_contribution_by_tag(result: xr.Dataset) -> Content:
    medians = result.self_contribution_quantiles.sel(quantile=0.5)
    every = result["layer"].values
    shown = sorted({int(every[0]), int(every[(len(every) - 1) // 2]), int(every[-1])})
    present = result["tag"].values[result.tokens.values > 0]
    ordered = sorted(present, key=lambda tag: -float(medians.sel(layer=every[-1], tag=tag)))
    note = f"Medians over the tokens of each tag, to ±{float(result.quantile_error):.2%}."
    rows = (
        (str(tag), str(int(result.tokens.sel(tag=tag))), *(f"{float(medians.sel(layer=layer, tag=tag)):.3f}" for layer in shown))
        for tag in ordered
    )
    return note, ("tag", "tokens", *(f"layer {layer}" for layer in shown)), tuple(rows)


def _ambiguity(result: xr.Dataset) -> Content:
    columns = {
        "rows": _mean("rows", ".0f"),
        "largest weight certain": _mean("certified", ".1%"),
        "its interval: median width": _quantile("width_quantiles", 0.5),
        "mean": _mean("width", ".3f"),
    }
    return _by_layer("One row a layer of every text, drawn by chance.", result, columns)


def _quantile(name: str, level: float) -> Callable[[xr.Dataset], str]:
    return lambda one: f"{float(one[name].sel(quantile=level)):.3f}"


TABLES: dict[str, Callable[[xr.Dataset], Content]] = {
    "effective_attention": _effective_attention,
    "attention_identifiability": _attention_identifiability,
    "token_attribution": _token_attribution,
    "self_contribution_by_tag": _self_contribution_by_tag,
    "ambiguity": _ambiguity,
}
