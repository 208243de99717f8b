"""Compute, draw and grade the figures of the paper."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from identiformer.cli import options
from identiformer.cli.application import app, errors, load_model, print_lines
from identiformer.errors import InputError


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
    from identiformer.texts.corpus import read_texts

    passage_texts, pair_texts = passage and read_texts(passage, 1, 3), pair and read_texts(pair, 2, 2)
    loaded = load_model(model, device, dtype, allow_pickle)
    import identiformer as idf
    from identiformer.paper.followups import PAPERS

    keys = list(PAPERS) if of == "all" else [key.strip() for key in of.split(",")]
    common: dict[str, Any] = {"quick": quick, "workers": workers, "passage": passage_texts, "pair": pair_texts}
    common |= {"progress": errors.is_terminal}
    if len(keys) == 1:
        numbers = None if figures is None else [number.strip() for number in figures.split(",")]
        done = idf.reproduce(loaded, data, out, figures=numbers, of=keys[0], **common)
        if not done.drawn:
            number, why = next(iter(done.missing.items()))
            raise InputError(f"expected the data of at least one figure, got none: Figure {number} {why}.")
        _print(done, None)
        return
    if figures is not None:
        raise InputError(f"expected --figures with one paper, got {len(keys)} papers; name one with --of.")
    for key, done in idf.reproduce_papers(loaded, data, out, of=keys, **common).items():
        _print(done, key)
    print_lines(Console(), f"page for all: {out / 'page.html'}", soft_wrap=True)


def _print(done, title: str | None) -> None:  # noqa: ANN001
    from identiformer.paper.grades import grade_table

    console = Console()
    grades = grade_table(done.grades)
    table = Table(*grades.header, title=title)
    for row in grades.rows:
        table.add_row(*row)
    console.print(table)
    lines = [f"left out: Figure {number} {why}" for number, why in done.missing.items()]
    print_lines(console, *lines, f"page: {done.page}", soft_wrap=True)
