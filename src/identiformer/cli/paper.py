"""Compute, draw and grade the figures of the paper."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from identiformer.cli.shared import DeviceOption, DtypeOption, ModelOption, PickleOption, app, errors, load_model


@app.command(epilog="Example:  identiformer paper --data glue --model minilm --out paper --figures 2a,3 --quick")
def paper(
    data: Annotated[
        str,
        typer.Option(help="GLUE folder with MRPC, CoLA, MNLI, wiki/wiki.test.raw; or its name on the hub.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the figures, grades and page.", show_default=False)],
    model: ModelOption = "minilm",
    figures: Annotated[str | None, typer.Option(help="Make only these figures, separated by commas, such as 2a,3,O1,B2.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use a sample that takes minutes.")] = False,
    passage: Annotated[
        Path | None, typer.Option(help="File with the text of Figure 6, or with three lines: two texts and the sentence to show.")
    ] = None,
    pair: Annotated[Path | None, typer.Option(help="File with the two texts of Figures 19-25, one per line.")] = None,
    workers: Annotated[int, typer.Option(help="Number of processes, one core each; more than one needs Ray.")] = 1,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Reproduce and grade every figure of the paper with one model; earlier computations are reused."""
    own_passage, own_pair = passage and _read_lines(passage, 1, 3), pair and _read_lines(pair, 2, 2)
    loaded = load_model(model, device, dtype, allow_pickle)
    import identiformer as idf
    from identiformer.paper.recipes.declarations import HEADER

    wanted = None if figures is None else [number.strip() for number in figures.split(",")]
    done = idf.reproduce(
        loaded, data, out, figures=wanted, quick=quick, workers=workers, passage=own_passage, pair=own_pair,
        progress=errors.is_terminal,
    )  # fmt: skip
    console = Console()
    table = Table(*HEADER)
    for grade in done.grades:
        table.add_row(*grade.cells)
    console.print(table)
    lines = [f"left out: Figure {number} {why}" for number, why in done.missing.items()]
    console.print(*lines, f"page: {done.page}", sep="\n", markup=False, highlight=False, soft_wrap=True)


def _read(path: Path) -> str:
    from identiformer.errors import InputError

    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a text file, but {path} cannot be read ({error}).") from None
    if not text:
        raise InputError(f"expected a text in {path}, which is empty.")
    return text


def _read_lines(path: Path, least: int, most: int) -> tuple[str, ...]:
    """The texts of a file, a line each."""
    from identiformer.errors import InputError

    lines = [line.strip() for line in _read(path).splitlines() if line.strip()]
    if not least <= len(lines) <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise InputError(f"expected {expected} texts in {path}, a line each, got {len(lines)}.")
    return tuple(lines)
