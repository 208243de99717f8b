"""Identify tokens by their hidden vectors, over a corpus."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from identiformer.cli.shared import (
    CorpusArgument,
    DeviceOption,
    DtypeOption,
    JsonOption,
    LimitOption,
    MaxLengthOption,
    ModelOption,
    PickleOption,
    app,
    errors,
    load_model,
    print_json,
)


@app.command(epilog="Example:  identiformer identify glue/MRPC/dev.tsv --model minilm --out runs/mrpc --also transfer")
def identify(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Option(help="Write results, figures and hidden states to this folder.", show_default=False)],
    model: ModelOption = "minilm",
    beside: Annotated[str | None, typer.Option(help="A second model to compare with, drawn as dashed lines.")] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="KIND LOSS: naive, linear, procrustes or mlp; cosine or l2. Repeat for more.")
    ] = None,
    fit: Annotated[str, typer.Option(help="How to fit linear maps: closed (seconds) or adam (as in the paper).")] = "closed",
    layer: Annotated[list[int] | None, typer.Option(help="Only this layer, counted from 1. Repeat for more.")] = None,
    resplits: Annotated[int, typer.Option(help="Number of random splits into training, validation and test examples.")] = 10,
    also: Annotated[
        list[str] | None, typer.Option(help="Also measure transfer, steps, neighbors or curve. Repeat for more.")
    ] = None,
    vocabulary: Annotated[bool, typer.Option(help="Also search for each token among all word pieces.")] = False,
    limit: LimitOption = None,
    max_length: MaxLengthOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the random splits.")] = 0,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Measure how many tokens can be identified from their hidden vectors, layer by layer."""
    with errors.status("loading torch and transformers …"):
        import identiformer as idf
    examples = idf.read_corpus(corpus, limit)
    names = [model] if beside is None else [model, beside]
    loaded = [load_model(name, device, dtype, allow_pickle) for name in names]
    options: dict[str, Any] = {"fit": fit, "layers": layer or None, "resplits": resplits, "limit": limit, "seed": seed}
    options |= {"max_length": max_length, "vocabulary": vocabulary, "also": also or (), "progress": errors.is_terminal}
    options |= {"methods": probe} if probe else {}
    folders = [out, out / "beside"][: len(loaded)]
    found = [idf.identify(each, examples, folder, **options) for each, folder in zip(loaded, folders, strict=True)]
    figures = idf.figures.save_identifiability_figures(found[0], out, found[1] if beside else None)
    rates = [results["token_identifiability"] for results in found]
    if as_json:
        print_json([_rates_as_json(one) for one in rates])
        return
    console = Console()
    for one in rates:
        console.print(_rate_table(one))
    console.print(*(f"figure: {path}" for path in figures), sep="\n", markup=False, highlight=False, soft_wrap=True)


def _rate_table(result) -> Table:  # noqa: ANN001
    hit = {"strict": "the very token", "lenient": "its word piece, since inputs have no positions"}[result.attrs["headline"]]
    about = result.attrs
    cut = f" ({about['cut']} of them cut)" if "cut" in about else ""
    table = Table(
        "layer",
        *(str(name) for name in result["probe"].values),
        title=f"{result.attrs['model']}: tokens found, % ({hit}), ± half a 95% interval",
        caption=f"{about['examples']} examples{cut}, {about['tokens']} tokens; guessing finds {result.random_rate:.1%}",
    )
    for layer in result["layer"].values:
        rows = (result.sel(layer=layer, probe=name) for name in result["probe"].values)
        cells = (f"{100 * one.rate:.1f} ±{50 * (one.rate_high - one.rate_low):.1f}".replace("nan ±nan", "—") for one in rows)
        table.add_row(str(layer), *cells)
    return table


def _rates_as_json(result) -> dict[str, Any]:  # noqa: ANN001
    names = ("rate", "rate_sd", "rate_low", "rate_high", "train_rate", "strict", "lenient", "vocabulary", "ties")
    rows = [
        {"probe": str(probe), "layer": int(layer)}
        | {name: None if math.isnan(value) else value for name in names for value in [result[name].sel(place).item()]}
        for probe in result["probe"].values
        for layer in result["layer"].values
        for place in [{"probe": probe, "layer": layer}]
    ]
    about = {name: result.attrs[name] for name in ("model", "revision", "examples", "tokens", "headline")}
    return about | {"random_rate": float(result.random_rate), "rates": rows}
