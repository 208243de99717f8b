"""Recover tokens from their hidden vectors, over a corpus."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import identiformer as idf
from identiformer.cli import options
from identiformer.cli.application import app, load_model, print_json, print_lines
from identiformer.cli.blocks import print_blocks
from identiformer.files import require_creatable
from identiformer.names import FITS, FURTHER, PROBES, check_names
from identiformer.options import check_examples, check_resplits


@app.command(epilog="Example:  identiformer identify glue/MRPC/dev.tsv --model minilm --out runs/mrpc --also transfer")
def identify(
    corpus: options.Corpus,
    out: Annotated[Path, typer.Option(help="Write results, figures and hidden states to this folder.", show_default=False)],
    model: options.Model = "minilm",
    compare_with: Annotated[str | None, typer.Option(help="A second model, drawn as dashed lines.")] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="KIND LOSS: naive, linear, procrustes or mlp; cosine or l2. Repeat for more.")
    ] = None,
    fit: Annotated[
        str,
        typer.Option(
            help="How to fit linear probes: closed (seconds) or adam (as in the paper).", callback=options.one_of("a fit", FITS)
        ),
    ] = "closed",
    layer: Annotated[list[int] | None, typer.Option(help="Only this layer, counted from 1. Repeat for more.")] = None,
    resplits: Annotated[
        int,
        typer.Option(help="Number of random splits into training, validation and test examples.", callback=check_resplits),
    ] = 10,
    also: Annotated[
        list[str] | None, typer.Option(help="Also measure transfer, steps, neighbors or curve. Repeat for more.")
    ] = None,
    vocabulary: Annotated[bool, typer.Option(help="Also search for each token among all word pieces.")] = False,
    limit: options.Limit = None,
    max_length: options.MaxLength = None,
    seed: Annotated[int, typer.Option(help="Seed of the random splits.", callback=options.valid_seed)] = 0,
    as_json: options.Json = False,
    device: options.Device = "cpu",
    dtype: options.Dtype = "auto",
    allow_pickle: options.Pickle = False,
) -> None:
    """Measure how many tokens can be identified from their hidden vectors, layer by layer."""
    from identiformer.models.loading.checks import check_chosen, check_load
    from identiformer.readings.identifiability import rate_table, rates_as_json

    probe = [" ".join(name.split()) for name in probe or ()]
    check_names("probes", probe or PROBES, PROBES)
    check_names("also=", also or FURTHER, FURTHER)
    require_creatable(out)
    examples = idf.read_corpus(corpus, limit)
    check_examples(len(examples))
    names = [model] if compare_with is None else [model, compare_with]
    for name in names:
        check_chosen(name, check_load(name, device, dtype=dtype), None, layer)
    loaded = [load_model(name, device, dtype, allow_pickle) for name in names]
    settings: dict[str, Any] = {
        "fit": fit,
        "layers": layer or None,
        "resplits": resplits,
        "limit": limit,
        "seed": seed,
        "max_length": max_length,
        "vocabulary": vocabulary,
        "also": also or (),
        "progress": True,
        **({"methods": probe} if probe else {}),
    }
    folders = [out, out / "compared"][: len(loaded)]
    results = [idf.identify(network, examples, folder, **settings) for network, folder in zip(loaded, folders, strict=True)]
    figures = idf.figures.save_identifiability_figures(results[0], out, results[1] if compare_with else None)
    rates = [by_measure["token_identifiability"] for by_measure in results]
    if as_json:
        print_json([rates_as_json(result) for result in rates])
        return
    console = Console()
    print_blocks(console, map(rate_table, rates))
    print_lines(console, *(f"figure: {path}" for path in figures), soft_wrap=True)
