"""The figures of a run over a corpus and of token identifiability, written to PNG files."""

import io
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.attention import draw_layer_summary
from identiformer.figures.corpus import (
    draw_correlation_by_length,
    draw_received_by_kind,
    draw_self_contribution_by_tag,
    draw_self_contribution_quantiles,
)
from identiformer.figures.token_attribution import draw_contribution_by_distance, draw_contribution_by_neighbors
from identiformer.figures.token_identifiability import (
    draw_learning_curve,
    draw_token_identifiability,
    draw_token_neighbors,
    draw_token_transfer,
)
from identiformer.files import remove_leftovers, write_file

ONE_FIGURE = {
    "token_transfer": draw_token_transfer,
    "token_neighbors": draw_token_neighbors,
    "learning_curve": draw_learning_curve,
}
"""Figures of token identifiability that show one model; the others can compare two."""
CORPUS_FIGURES: dict[str, tuple[str, Callable[[xr.Dataset], Axes]]] = {
    "correlation_by_length": ("effective_attention", draw_correlation_by_length),
    "layers": ("effective_attention", draw_layer_summary),
    "raw_received": ("effective_attention", partial(draw_received_by_kind, which="raw")),
    "effective_received": ("effective_attention", partial(draw_received_by_kind, which="effective")),
    "self_contribution": ("token_attribution", draw_self_contribution_quantiles),
    "self_contribution_by_tag": (
        "self_contribution_by_tag",
        lambda result: draw_self_contribution_by_tag(result, int(result["layer"][-1])),
    ),
    "contribution_by_distance": ("token_attribution", draw_contribution_by_distance),
    "contribution_by_neighbors": ("token_attribution", draw_contribution_by_neighbors),
}
"""By name, the measure that a figure of a run shows and the function that draws it."""


def draw_corpus_figures(results: Mapping[str, xr.Dataset]) -> Iterator[tuple[str, Figure]]:
    """Draw every figure that the results of a run allow; yields its name and the figure."""
    for name, (measure, draw) in CORPUS_FIGURES.items():
        if measure in results and isinstance(figure := draw(results[measure]).figure, Figure):
            yield name, figure


def save_corpus_figures(results: Mapping[str, xr.Dataset], folder: Path) -> None:
    """Write every figure that the results of a run allow."""
    folder.mkdir(exist_ok=True)
    remove_leftovers(folder)
    for name, figure in draw_corpus_figures(results):
        _save(figure, folder / f"{name}.png", dpi=120)


def save_identifiability_figures(
    results: Mapping[str, xr.Dataset], folder: Path, other: Mapping[str, xr.Dataset] | None = None
) -> list[Path]:
    """Draw each result of `identify` and write it to a folder as PNG.

    Parameters
    ----------
    results : mapping of str to xarray.Dataset
        Results by measure, as `identify` returns them.
    folder : pathlib.Path
        Where to write; made if it does not exist.
    other : mapping of str to xarray.Dataset, optional
        Results of another model, drawn into the same figures as dashed lines where a figure allows it.

    Returns
    -------
    list of pathlib.Path
        The files written, one per result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for measure, result in results.items():
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        ax = figure.subplots()
        if measure in ONE_FIGURE:
            ONE_FIGURE[measure](result, ax=ax)
        else:
            draw_token_identifiability(result, (other or {}).get(measure), ax)
        paths.append(folder / f"{measure}.png")
        _save(figure, paths[-1], dpi=130)
    return paths


def _save(figure: Figure, path: Path, dpi: int) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi)
    write_file(path, picture.getvalue())
