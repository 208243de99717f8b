"""The figures of a run over a corpus and of token identifiability, written to files for screens and for papers."""

import io
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.attention import draw_layer_summary
from identiformer.figures.comparison import draw_comparison, draw_comparison_layers
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
CORPUS_FIGURES: dict[str, tuple[str, Callable[[xr.Dataset], Axes | None]]] = {
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
    "comparison": ("faithfulness", lambda result: draw_comparison(result)[0] if result.score.size else None),
    "comparison_by_layer": ("faithfulness", lambda result: draw_comparison_layers(result)[0] if result.score.size else None),
    "comparison_of_explanations": (
        "faithfulness",
        lambda result: draw_comparison(result, explanations=True)[0] if result.explanation_score.size else None,
    ),
}
"""By name, the measure that a figure of a run shows and the function that draws it; None means that there is nothing to show."""


FORMATS = ("png", "pdf")
"""For screens, and for papers."""
DPI = 200
"""Legible in print."""
# Matplotlib writes the time and random identifiers into pictures; the same figure should give the same bytes.
DATE_FIELDS = {"svg": "Date", "pdf": "CreationDate", "ps": "CreationDate"}
REPRODUCIBLE: Any = {"svg.hashsalt": "identiformer", "svg.fonttype": "none"}


def draw(drawn: Figure | Axes, extension: str) -> bytes:
    """A figure, or that of axes, in a file format; text stays text in SVG, so that a browser can show any script."""
    figure: Any = drawn.figure
    buffer = io.BytesIO()
    undated: dict[str, Any] = {DATE_FIELDS[extension]: None} if extension in DATE_FIELDS else {}
    with warnings.catch_warnings(), mpl.rc_context(REPRODUCIBLE):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=extension, dpi=DPI, metadata=undated)
    return buffer.getvalue()


def save_corpus_figures(results: Mapping[str, xr.Dataset], folder: Path) -> None:
    """Write every figure that the results of a run allow, as PNG and PDF."""
    folder.mkdir(exist_ok=True)
    remove_leftovers(folder)
    for name, (measure, draw_figure) in CORPUS_FIGURES.items():
        ax = draw_figure(results[measure]) if measure in results else None
        if ax is not None:
            _save(ax, folder / name)


def save_identifiability_figures(
    results: Mapping[str, xr.Dataset], folder: Path, other: Mapping[str, xr.Dataset] | None = None
) -> list[Path]:
    """Draw each result of `identify` and write it to a folder as PNG and PDF.

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
        The files written, two per result.
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
        paths += _save(figure, folder / measure)
    return paths


def _save(drawn: Figure | Axes, stem: Path) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{extension}") for extension in FORMATS]
    for path, extension in zip(paths, FORMATS, strict=True):
        write_file(path, draw(drawn, extension))
    return paths
