"""Recover tokens from their hidden vectors, over a corpus."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from identiformer.cli import options
from identiformer.cli.application import app, errors, load_model, print_json, print_lines
from identiformer.typed_json import finite_or_null


@app.command(epilog="Example:  identiformer identify glue/MRPC/dev.tsv --model minilm --out runs/mrpc --also transfer")
def identify(
    corpus: options.Corpus,
    out: Annotated[Path, typer.Option(help="Write results, figures and hidden states to this folder.", show_default=False)],
    model: options.Model = "minilm",
    compare_with: Annotated[str | None, typer.Option(help="A second model, drawn as dashed lines.")] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="KIND LOSS: naive, linear, procrustes or mlp; cosine or l2. Repeat for more.")
    ] = None,
    fit: Annotated[str, typer.Option(help="How to fit linear probes: closed (seconds) or adam (as in the paper).")] = "closed",
    layer: Annotated[list[int] | None, typer.Option(help="Only this layer, counted from 1. Repeat for more.")] = None,
    resplits: Annotated[int, typer.Option(help="Number of random splits into training, validation and test examples.")] = 10,
    also: Annotated[
        list[str] | None, typer.Option(help="Also measure transfer, steps, neighbors or curve. Repeat for more.")
    ] = None,
    vocabulary: Annotated[bool, typer.Option(help="Also search for each token among all word pieces.")] = False,
    limit: options.Limit = None,
    max_length: options.MaxLength = None,
    seed: Annotated[int, typer.Option(help="Seed of the random splits.")] = 0,
    as_json: options.Json = False,
    device: options.Device = "cpu",
    dtype: options.Dtype = "auto",
    allow_pickle: options.Pickle = False,
) -> None:
    """Measure how many tokens can be identified from their hidden vectors, layer by layer."""
    with errors.status("loading torch and transformers …"):
        import identiformer as idf
    examples = idf.read_corpus(corpus, limit)
    names = [model] if compare_with is None else [model, compare_with]
    loaded = [load_model(name, device, dtype, allow_pickle) for name in names]
    settings: dict[str, Any] = {"fit": fit, "layers": layer or None, "resplits": resplits, "limit": limit, "seed": seed}
    settings |= {"max_length": max_length, "vocabulary": vocabulary, "also": also or (), "progress": errors.is_terminal}
    settings |= {"methods": probe} if probe else {}
    folders = [out, out / "compared"][: len(loaded)]
    results = [idf.identify(network, examples, folder, **settings) for network, folder in zip(loaded, folders, strict=True)]
    figures = idf.figures.save_identifiability_figures(results[0], out, results[1] if compare_with else None)
    rates = [by_measure["token_identifiability"] for by_measure in results]
    if as_json:
        print_json([_rates_as_json(result) for result in rates])
        return
    console = Console()
    for result in rates:
        console.print(_rate_table(result))
    print_lines(console, *(f"figure: {path}" for path in figures), soft_wrap=True)


def _rate_table(result) -> Table:  # noqa: ANN001
    about = result.attrs
    match = {"strict": "the exact token", "lenient": "its word piece, because inputs have no positions"}[about["headline"]]
    truncated = f" ({about['cut']} of them truncated)" if "cut" in about else ""
    table = Table(
        "layer",
        *(str(name) for name in result["probe"].values),
        title=f"{about['model']}: recovery rate, % ({match}), ± half a 95% interval",
        caption=f"{about['examples']} examples{truncated}, {about['tokens']} tokens; random guessing: {result.random_rate:.1%}",
    )
    for layer in result["layer"].values:
        rows = (result.sel(layer=layer, probe=name) for name in result["probe"].values)
        cells = (f"{100 * one.rate:.1f} ±{50 * (one.rate_high - one.rate_low):.1f}".replace("nan ±nan", "—") for one in rows)
        table.add_row(str(layer), *cells)
    return table


def _rates_as_json(result) -> dict[str, Any]:  # noqa: ANN001
    names = ("rate", "rate_sd", "rate_low", "rate_high", "train_rate", "strict", "lenient", "vocabulary", "ties")
    rows = result[list(names)].to_dataframe(["probe", "layer"]).reset_index().to_dict("records")
    about = {name: result.attrs[name] for name in ("model", "revision", "examples", "tokens", "headline")}
    return about | {"random_rate": float(result.random_rate), "rates": finite_or_null(rows)}
