"""Anything over the layers: a color, a marker and a line for each of several groups."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.percent import mark_percent

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
MARKERS = "os^Dv*"
STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1)), (0, (1, 3)))


def draw_over_layers(groups: Mapping[str, xr.DataArray], label: str, ax: Axes | None = None, *, percent: bool = True) -> Axes:
    """Values over (layer) or (layer head), by the name of their group: a dot a head, a line through the means."""
    ax = ax or Figure(figsize=(6, 4), layout="constrained").subplots()
    for number, (name, group) in enumerate(groups.items()):
        color, marker, style = (each[number % len(each)] for each in (COLOURS, MARKERS, STYLES))
        means = group.mean("head") if "head" in group.dims else group
        if not np.isfinite(means).any():
            continue
        if "head" in group.dims:
            values = group.transpose("layer", "head").values
            places = np.repeat(group["layer"].values[:, None], values.shape[1], 1)
            ax.scatter(places, values, s=10, alpha=0.4, color=color, linewidths=0)
        ax.plot(means["layer"], means, linestyle=style, color=color, marker=marker, markersize=5, label=name)
    ax.set_xlabel("layer")
    ax.set_ylabel(label)
    if percent:
        mark_percent(ax.yaxis)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.grid(axis="y", alpha=0.3)
    if len(groups) > 1:  # above, since curves may be anywhere
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax
