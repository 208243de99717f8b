"""Idle attention of every head, and how much of what the output depends on goes through each."""

import json

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from identiformer.figures.style import SEQUENTIAL, axes_or_new, draws, mark_percent


@draws("idle_attention")
def draw_idle(result: xr.Dataset, strongest: xr.Dataset | None = None, ax: Axes | None = None) -> Axes:
    """Draw the share of each layer's attention that is idle: one bar per layer, and a dot per head.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `idle_attention`.
    strongest : xarray.Dataset, optional
        Result of `strongest_weights` for the same target: the area of a dot is the head's share of all first-order effects.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    layers, shares, weights = result["layer"].values, result.share_by_head.values, result.weight_by_head.values
    ax = axes_or_new(ax, 8, 3.4)
    with np.errstate(invalid="ignore"):
        means = np.nansum(shares * weights, 1) / weights.sum(1)
    ax.bar(layers, means, width=0.7, color="#d5dde6", label="layer")
    sizes = np.full(shares.shape, 12.0)
    label = "head"
    if strongest is not None and strongest.head_effect.shape == shares.shape:
        sizes = 4 + 1200 * strongest.head_effect.values
        label = "head; area: its share of all effects on the output"
    offsets = np.linspace(-0.28, 0.28, shares.shape[1])
    ax.scatter(layers[:, None] + offsets, shares, s=sizes, color=SEQUENTIAL(0.75), alpha=0.75, linewidths=0, label=label)
    ax.set_xticks(layers if len(layers) <= 16 else layers[::2])
    ax.set_xlabel("layer")
    ax.set_ylim(0, max(0.05, min(1.0, 1.1 * float(np.nanmax(shares, initial=0.0)))))
    mark_percent(ax.yaxis)
    ax.set_ylabel("idle share of the weight")
    ax.legend(ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1, handlelength=1, fontsize=9)
    settings, share = json.loads(result.attrs["settings"]), float(result.share.sel(order="effect"))
    title = f"{share:.0%} of the attention is idle for {settings['objective']}"
    ax.set_title(title, loc="left", pad=26, fontsize=12, fontweight="bold", parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
