"""One row of attention over the picture that a vision model reads."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from identiformer.errors import InputError
from identiformer.figures.style import SEQUENTIAL, axes_or_new, draws, set_title, short_name

FRAME = "#D55E00"
FAINT = 0.6
"""How much of the picture's contrast stays under the weights."""
STRONGEST = 0.6
"""The opacity of the largest weight, so that the picture stays visible under it."""


@draws("effective_attention", "attention_reading")
def draw_patches(
    result: xr.Dataset, colors: np.ndarray, layer: int, head: int, query: int, *, which: str = "raw", ax: Axes | None = None
) -> Axes:
    """Draw a row of attention over a picture: each patch is covered by its weight.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `effective_attention` with its matrices, or of `attention_reading`, on an image.
    colors : uint8 array (height width 3)
        The picture as the model reads it: `open_picture(model, path).colors`.
    layer, head, query : int
        The row; layers count from 1, heads and positions from 0.
    which : str
        The variable to draw, such as raw, effective, weight or contribution; negative values are drawn as zero.
    """
    if which not in result.data_vars:
        raise InputError(f"expected a variable of {result.attrs['measure']} as which, got {which!r}; pass one, such as 'weight'.")
    row = result[which].sel(layer=layer, head=head, query=query)
    tokens = [str(token) for token in result["key_token"].values]
    at = {position: tuple(map(int, token.split(","))) for position, token in enumerate(tokens) if token[0].isdigit()}
    if not at:
        raise InputError(f"expected attention between the patches of an image, got that of {result.attrs['model']} on a text.")
    grid = np.zeros((max(y for y, _ in at.values()) + 1, max(x for _, x in at.values()) + 1))
    for position, cell in at.items():
        grid[cell] = max(float(row[position]), 0)
    ax = axes_or_new(ax, 6.4, 5.4)
    height, width = colors.shape[:2]
    gray = colors.mean(-1) / 255
    ax.imshow(FAINT * gray + (1 - FAINT), cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    limit = max(float(grid.max()), 1e-9)
    image = ax.imshow(
        grid, cmap=SEQUENTIAL, norm=Normalize(0, limit), alpha=STRONGEST * np.sqrt(grid / limit), extent=(0, width, height, 0),
        interpolation="nearest",
    )  # fmt: skip
    y_size, x_size = height / grid.shape[0], width / grid.shape[1]
    if query in at:
        y, x = at[query]
        ax.add_patch(Rectangle((x * x_size, y * y_size), x_size, y_size, fill=False, edgecolor=FRAME, linewidth=2))
    ax.set_xticks(np.arange(grid.shape[1]) * x_size + x_size / 2, [str(x) for x in range(grid.shape[1])], fontsize=7)
    ax.set_yticks(np.arange(grid.shape[0]) * y_size + y_size / 2, [str(y) for y in range(grid.shape[0])], fontsize=7)
    ax.set(xlabel="column of patches", ylabel="row of patches")
    special = " ".join(f"{token} {float(row[position]):.2f}" for position, token in enumerate(tokens) if position not in at)
    set_title(
        ax,
        f"{short_name(result.attrs['model'])}, layer {layer}, head {head}, row of {tokens[query]}\n"
        f"on patches {float(row[list(at)].sum()):.2f}{', ' if special else ''}{special}",
    )
    image.colorbar = ax.figure.colorbar(image, ax=ax, label=f"{which} weight".replace("weight weight", "weight"), shrink=0.85)
    return ax
