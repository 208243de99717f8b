"""Compute, draw and grade the figures of the paper."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from identiformer.cli import options
from identiformer.cli.application import app, errors, load_model, print_lines


@app.command(epilog="Example:  identiformer paper --data glue --model minilm --out paper --figures 2a,3 --quick")
def paper(
    data: Annotated[
        str,
        typer.Option(help="GLUE folder with MRPC, CoLA, MNLI, wiki/wiki.test.raw; or its name on the hub.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the figures, grades and page.", show_default=False)],
    model: options.Model = "minilm",
    figures: Annotated[str | None, typer.Option(help="Make only these figures, separated by commas, such as 2a,3,O1,B2.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use a sample that takes minutes.")] = False,
    passage: Annotated[
        Path | None, typer.Option(help="File with the text of Figure 6, or with three lines: two texts and the sentence to show.")
    ] = None,
    pair: Annotated[Path | None, typer.Option(help="File with the two texts of Figures 19-25, one per line.")] = None,
    workers: Annotated[int, typer.Option(help="Number of processes, one core each; more than one needs Ray.")] = 1,
    device: options.Device = "cpu",
    dtype: options.Dtype = "float32",
    allow_pickle: options.Pickle = False,
) -> None:
    """Reproduce and grade every figure of the paper with one model; earlier computations are reused."""
    from identiformer.texts.corpus import read_texts

    passage_texts, pair_texts = passage and read_texts(passage, 1, 3), pair and read_texts(pair, 2, 2)
    loaded = load_model(model, device, dtype, allow_pickle)
    import identiformer as idf
    from identiformer.paper.recipes.declarations import HEADER

    done = idf.reproduce(
        loaded, data, out, figures=None if figures is None else [number.strip() for number in figures.split(",")],
        quick=quick, workers=workers, passage=passage_texts, pair=pair_texts,
        progress=errors.is_terminal,
    )  # fmt: skip
    console = Console()
    table = Table(*HEADER)
    for grade in done.grades:
        table.add_row(*grade.cells)
    console.print(table)
    lines = [f"left out: Figure {number} {why}" for number, why in done.missing.items()]
    print_lines(console, *lines, f"page: {done.page}", soft_wrap=True)
