"""The attention of one text: maps of a head, a row over a picture, differences per layer, and certified bounds of a row."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from identiformer.errors import InputError
from identiformer.figures.style import (
    COLORS,
    DIVERGING,
    SEQUENTIAL,
    axes_or_new,
    draw_head_dots,
    draws,
    finish_layers,
    hatch_negative,
    label_tokens,
    set_title,
    short_name,
)

MAPS = {"raw": "raw attention  A", "effective": "effective attention  A⊥", "null": "null component  A∥"}
MOST_KEYS = 24
"""Keys whose labels stay legible on one axis."""
CERTIFIED, REACHED, RAW = "#c9d8e6", "#4c86b8", "#1a1a1a"


@draws("effective_attention")
def draw_attention_maps(result: xr.Dataset, layer: int, head: int, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Draw A, A⊥ and A∥ of one head side by side on one color scale, as in Figure 6.

    Most weights are near zero, so color follows the square root of a weight and saturates at the 99th percentile.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `effective_attention` with its matrices.
    layer, head : int
        The head to draw; layers count from 1, heads from 0.
    axes : sequence of three matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    sequence of matplotlib.axes.Axes
    """
    if axes is None:
        axes = list(Figure(figsize=(13, 5.2), layout="constrained").subplots(1, 3, sharey=True))
    maps = result.sel(layer=layer, head=head)
    limit = max(float(np.quantile(np.abs(maps["raw"]), 0.99)), 1e-6)
    root_and_square = (lambda value: np.sign(value) * np.sqrt(np.abs(value)), lambda value: np.sign(value) * np.square(value))
    norm = FuncNorm(root_and_square, vmin=-limit, vmax=limit)
    images = []
    for ax, (name, title) in zip(axes, MAPS.items(), strict=True):
        images.append(ax.imshow(maps[name].values, norm=norm, cmap=DIVERGING, aspect="auto", interpolation="nearest"))
        hatch_negative(ax, maps[name].values, limit)
        ax.set_title(title, fontsize=11)
        label_tokens(ax.xaxis, [str(token) for token in maps.key_token.values], rotation=90)
        label_tokens(ax.yaxis, [str(token) for token in maps.query_token.values], rotation=0)
        ax.set_xlabel("key")
    axes[0].set_ylabel("query")
    figure = axes[0].figure
    figure.suptitle(f"{short_name(result.attrs['model'])}, layer {layer}, head {head}", fontsize=12, parse_math=False)
    label = "attention weight (color: square root)"
    bar = figure.colorbar(images[0], ax=list(axes), shrink=0.85, pad=0.01, label=label, extend="both")
    ticks = [limit * share for share in (-1, -0.25, -0.04, 0, 0.04, 0.25, 1)]
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    return axes


@draws("effective_attention", "corpus_effective_attention")
def draw_layer_summary(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw the correlation of raw with effective attention and the null mass: one dot per head, a line through the means.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `effective_attention`, or of a corpus run's `effective_attention`.
    """
    ax = axes_or_new(ax)
    curves = (("correlation", "correlation of A with A⊥", -0.12), ("null_mass", "null mass: share of ‖A‖² in A∥", 0.12))
    for (name, label, shift), color, marker in zip(curves, COLORS, "os", strict=False):
        positions = result["layer"].values + shift
        draw_head_dots(ax, positions, result[name], color, marker)
        ax.plot(positions, result[name].mean("head"), color=color, marker=marker, label=label)
    finish_layers(ax, "per head (dots) and mean (line)", percent=False)
    ax.set_ylim(-0.05, 1.05)
    ax.legend(frameon=False)
    return ax


@draws("ambiguity", "certify_head")
def draw_intervals(result: xr.Dataset, query: int, alternative: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the weights of one row with their certified bounds, and another row with the same output.

    Shows the keys that have, or could have, the largest weights.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `ambiguity` or `certify_head`.
    query : int
        The row to draw.
    alternative : str, optional
        Which of the result's alternatives to draw, such as "farthest"; none by default.
    """
    ax = axes_or_new(ax, 8, 6)
    row = result.sel(query=query)
    largest = np.nan_to_num(np.fmax(row.raw.values, row.high_reached.values))
    shown = row.isel(key=np.sort(np.argsort(-largest, kind="stable")[:MOST_KEYS]))
    positions = np.arange(shown.sizes["key"])
    for low, high, color, height, label in (
        ("low", "high", CERTIFIED, 0.8, "certified bounds"),
        ("low_reached", "high_reached", REACHED, 0.45, "reached by a row with the same output"),
    ):
        ax.barh(positions, shown[high] - shown[low], left=shown[low], height=height, color=color, label=label)
    ax.plot(shown.raw, positions, "o", color=RAW, markersize=5, clip_on=False, label="attention weight of the model")
    if alternative is not None:
        weights = shown.alternatives.sel(alternative=alternative)
        label = f"alternative attention ({alternative.replace('_', ' ')})"
        ax.plot(weights, positions, "D", color=COLORS[1], ms=5.5, mfc="white", mew=1.4, clip_on=False, label=label)
    labels = [f"{token}  {key}" for token, key in zip(shown.key_token.values, shown["key"].values, strict=True)]
    ax.set_yticks(positions, labels, fontsize=8, parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set(xlabel="attention weight", ylabel="key: token and position")
    head = f"{short_name(result.attrs['model'])}, layer {int(result['layer'])}, head {int(result['head'])}"
    set_title(ax, f"{head}: attention of ‘{row.query_token.values}’ at {query}")
    ax.legend(fontsize=8, loc="lower right")
    return ax


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
