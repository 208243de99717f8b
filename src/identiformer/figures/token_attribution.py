"""Hidden Token Attribution of one text: one token's layers as in Figures 19 to 25, all tokens as in Figures 3 and 4."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from identiformer.figures.style import (
    COLORS,
    LINE_STYLES,
    SEQUENTIAL,
    axes_or_new,
    draw_boxes,
    draws,
    finish_layers,
    label_tokens,
    mark_percent,
    set_title,
    short_name,
)
from identiformer.results.schema import first_middle_last

LABELS_PER_INCH = 5  # upright token labels that stay legible


@draws("token_attribution")
def draw_token_attribution(result: xr.Dataset, target: int, ax: Axes | None = None) -> Axes:
    """Draw the contribution of every input token to one token's hidden vectors: one row per layer.

    A dot marks the main contributor of a layer, a hollow one where the error leaves it undecided. Color follows the square
    root of the contribution.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_attribution`.
    target : int
        Position of the token.
    """
    vectors = result.sel(target=target)
    layers = vectors["layer"].values
    ax = axes_or_new(ax, max(6, 1.5 + 0.28 * vectors.sizes["source"]), 1.6 + 0.28 * len(layers))
    rows = np.arange(len(layers))
    norm = PowerNorm(0.5, 0, float(vectors.contribution.max()))
    image = ax.imshow(vectors.contribution.values, SEQUENTIAL, norm, aspect="auto", interpolation="nearest")
    for certain, face in ((True, COLORS[1]), (False, "white")):
        shown = vectors.main_contributor_certain.values == certain
        ax.plot(vectors.main_contributor.values[shown], rows[shown], "o", ms=5, mfc=face, mec=COLORS[1], mew=1.4)
    most = int(ax.get_window_extent().width / ax.figure.dpi * LABELS_PER_INCH)
    label_tokens(ax.xaxis, [str(token) for token in vectors.source_token.values], rotation=90, most=most)
    ax.set_yticks(rows, [str(layer) for layer in layers], fontsize=8)
    ax.set(xlabel="input token  (dot: main contributor; hollow: undecided)", ylabel="layer")
    name = short_name(result.attrs["model"])
    set_title(ax, f"{name}: contributions to the hidden vector of ‘{vectors.target_token.values}’ at {target}")
    bar = ax.figure.colorbar(image, ax=ax, pad=0.01, label="contribution (color: square root)")
    mark_percent(bar.ax.yaxis)
    return ax


@draws("token_attribution")
def draw_self_contribution(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw the self-contribution of all tokens per layer, and how many are not their own main contributor. Fig. 3.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_attribution` with all tokens as targets.
    """
    mixed = (result.main_contributor != result.target).mean("target")
    ax = draw_mixing(boxplot_stats(list(result.self_contribution.values)), mixed, "median, quartiles, 1.5 × IQR", ax)
    ax.set_ylim(-0.02, max(0.5, float(result.self_contribution.max()) * 1.05, float(mixed.max()) * 1.1))
    return ax


def draw_mixing(boxes: Sequence[dict[str, float]], mixed: xr.DataArray, statistics: str, ax: Axes | None = None) -> Axes:
    """Draw boxes of self-contribution per layer, and the share of tokens that are not their own main contributor."""
    ax = axes_or_new(ax)
    layers = mixed["layer"].values
    draw_boxes(ax, boxes, layers, COLORS[0], "#cfe3f2")
    ax.plot(layers, mixed, "s--", color=COLORS[1], label="tokens that are not their own main contributor")
    ax.plot([], [], color=COLORS[0], linewidth=2, label=f"self-contribution: {statistics}")
    finish_layers(ax, "share")
    ax.set_xticks(layers, [str(layer) for layer in layers])
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


@draws("token_attribution", "corpus_token_attribution")
def draw_contribution_by_neighbors(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw in which layers near and far neighbors contribute: the share of each layer in a group's contribution. Fig. 4a.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_attribution`, or of a corpus run's `token_attribution`.
    """
    ax = axes_or_new(ax)
    shares = result.by_neighbors / result.by_neighbors.sum("layer")
    for group, style, color in zip(shares["group"].values, LINE_STYLES, COLORS, strict=False):
        if np.isfinite(shares.sel(group=group)).any():
            ax.plot(shares["layer"], shares.sel(group=group), linestyle=style, color=color, marker="o", markersize=3, label=group)
    finish_layers(ax, "share of the group's contribution")
    ax.legend(frameon=False, title="neighbor", ncols=2)
    return ax


@draws("token_attribution", "corpus_token_attribution")
def draw_contribution_by_distance(result: xr.Dataset, layers: Sequence[int] | None = None, ax: Axes | None = None) -> Axes:
    """Draw how far away the tokens are that contribute to a token, itself excluded. Fig. 4b.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_attribution`, or of a corpus run's `token_attribution`.
    layers : sequence of int, optional
        Layers to draw; the first, middle and last by default.
    """
    ax = axes_or_new(ax)
    others = result.by_distance.where(result["distance"] != 0)
    for layer, style, color in zip(layers or first_middle_last(result["layer"].values), LINE_STYLES, COLORS, strict=False):
        ax.plot(result["distance"], others.sel(layer=layer), linestyle=style, color=color, label=f"layer {layer}")
    finish_layers(ax, "share of the contribution of other tokens")
    ax.set_xlabel("distance: source position − target position")
    ax.legend(frameon=False)
    return ax


def draw_all_tokens(result: xr.Dataset) -> Figure:
    """Draw self-contribution, and contribution by neighbor and by distance, next to each other."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw_self_contribution(result, left)
    draw_contribution_by_neighbors(result, middle)
    draw_contribution_by_distance(result, ax=right)
    return figure
