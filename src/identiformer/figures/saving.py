"""Every figure of token identifiability that results allow, as files."""

import io
from collections.abc import Mapping
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from identiformer.figures.token_identifiability import (
    draw_learning_curve,
    draw_token_identifiability,
    draw_token_neighbors,
    draw_token_transfer,
)
from identiformer.files import write_file

ALONE = {"token_transfer": draw_token_transfer, "token_neighbors": draw_token_neighbors, "learning_curve": draw_learning_curve}


def save_identifiability_figures(
    results: Mapping[str, xr.Dataset], folder: Path, beside: Mapping[str, xr.Dataset] | None = None
) -> list[Path]:
    """Draw each result, with that of another model beside where there is one, and write it as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for measure, result in results.items():
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        ax = figure.subplots()
        if measure in ALONE:
            ALONE[measure](result, ax=ax)
        else:
            draw_token_identifiability(result, (beside or {}).get(measure), ax)
        paths.append(folder / f"{measure}.png")
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=130)
        write_file(paths[-1], picture.getvalue())
    return paths
