"""Compute, draw and grade the figures of the paper."""

from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import typer
from rich.console import Console

import identiformer as idf
from identiformer.cli import options
from identiformer.cli.application import app, load_model, print_lines
from identiformer.cli.blocks import print_blocks
from identiformer.engines import RayEngine
from identiformer.errors import InputError
from identiformer.folders import ResumableFolder
from identiformer.names import FIGURES, check_names
from identiformer.readings.blocks import Table


@app.command(epilog="Example:  identiformer paper --data glue --model minilm --out paper --figures 2a,3 --quick")
def paper(
    data: Annotated[
        str,
        typer.Option(
            help="GLUE folder with MRPC, CoLA, MNLI, wiki/wiki.test.raw, for later papers also SST-2, TREC, movies; or its name "
            "on the hub.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the figures, grades and page.", show_default=False)],
    model: options.Model = "minilm",
    of: Annotated[
        str, typer.Option(help="brunner2020, bhardwaj2021, sun2021 or pascual2021; several, separated by commas, or all.")
    ] = "brunner2020",
    figures: Annotated[str | None, typer.Option(help="Make only these figures, separated by commas, such as 2a,3,O1,B2.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use a sample that takes minutes.")] = False,
    passage: Annotated[
        Path | None, typer.Option(help="File with the text of Figure 6, or with three lines: two texts and the sentence to show.")
    ] = None,
    pair: Annotated[Path | None, typer.Option(help="File with the two texts of Figures 19-25, one per line.")] = None,
    workers: Annotated[int, typer.Option(help="Number of processes, one core each; more than one needs Ray.")] = 1,
    device: options.Device = "cpu",
    dtype: options.Dtype = "auto",
    allow_pickle: options.Pickle = False,
) -> None:
    """Reproduce and grade every figure of a paper with one model; earlier computations are reused."""
    from identiformer.paper.computations.data import find_data
    from identiformer.texts.corpus import read_texts

    keys = list(FIGURES) if of == "all" else list(check_names("papers", options.split(of), tuple(FIGURES)))
    if figures is not None and len(keys) > 1:
        raise InputError(f"expected --figures with one paper, got {len(keys)} papers; name one with --of.")
    numbers = None if figures is None else options.split(figures)
    if numbers is not None:
        known = FIGURES[keys[0]]
        check_names("figures", numbers, (*known, *(number.rstrip("abc") for number in known)))
    if workers != 1:
        RayEngine(workers)  # raises unless that many can start
    find_data(data)
    for key in keys:
        folder = out.expanduser() if len(keys) == 1 else out.expanduser() / key
        ResumableFolder(folder).check()
    texts = {"passage": passage and read_texts(passage, 1, 3), "pair": pair and read_texts(pair, 2, 2)}
    loaded = load_model(model, device, dtype, allow_pickle)
    common: Any = {"quick": quick, "workers": workers, "progress": True, **texts}
    if len(keys) == 1:
        done = idf.reproduce(loaded, data, out, figures=numbers, of=keys[0], **common)
        if not done.drawn:
            number, why = next(iter(done.missing.items()))
            raise InputError(f"expected the data of at least one figure, got none: Figure {number} {why}.")
        _print(done, "")
        return
    for key, done in idf.reproduce_papers(loaded, data, out, of=keys, **common).items():
        _print(done, key)
    print_lines(Console(), f"page for all: {out / 'page.html'}", soft_wrap=True)


def _print(done, title: str) -> None:  # noqa: ANN001
    rows = []
    for grade in done.grades:
        paper = "" if grade.paper is None else f" (the paper: {grade.paper:.4g})"
        here = shorten(grade.ours, 120, placeholder=" …")  # the page has all of it
        claim = f"{grade.says}{paper}\n{here}"
        rows.append({"figure": grade.figure, "verdict": grade.verdict, "claim, and the numbers here": claim})
    console = Console()
    print_blocks(console, [Table(title, rows)])
    lines = [f"left out: Figure {number} {why}" for number, why in done.missing.items()]
    print_lines(console, *lines, f"page: {done.page}", soft_wrap=True)
