"""The figures of a run, as pictures in its folder."""

import io
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer import figures
from identiformer.files import remove_leftovers, write_file

DRAWN: dict[str, tuple[str, Callable[[xr.Dataset], Axes]]] = {
    "correlation_by_length": ("effective_attention", figures.draw_correlation_by_length),
    "layers": ("effective_attention", figures.draw_layer_summary),
    "raw_received": ("effective_attention", partial(figures.draw_received_by_kind, which="raw")),
    "effective_received": ("effective_attention", partial(figures.draw_received_by_kind, which="effective")),
    "self_contribution": ("token_attribution", figures.draw_self_contribution_quantiles),
    "self_contribution_by_tag": (
        "self_contribution_by_tag",
        lambda result: figures.draw_self_contribution_by_tag(result, int(result["layer"][-1])),
    ),
    "contribution_by_distance": ("token_attribution", figures.draw_contribution_by_distance),
    "contribution_by_neighbors": ("token_attribution", figures.draw_contribution_by_neighbors),
}


def draw_figures(results: Mapping[str, xr.Dataset], folder: Path) -> None:
    """Draw what the results allow, each into a file of its own."""
    folder.mkdir(exist_ok=True)
    remove_leftovers(folder)
    for name, (measure, draw) in DRAWN.items():
        if measure in results:
            figure = draw(results[measure]).figure
            assert isinstance(figure, Figure)
            picture = io.BytesIO()
            figure.savefig(picture, format="png", dpi=120)
            write_file(folder / f"{name}.png", picture.getvalue())
