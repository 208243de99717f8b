"""How much is left of tokens in their own vectors, by part of speech. Figs. 26-37."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.percent import mark_percent

WORDS, SPECIAL = ("#0072B2", "#cfe3f2"), ("#D55E00", "#f7dccb")
"""The colors of edges and faces."""


def draw_self_contribution_by_tag(result: xr.Dataset, layer: int, ax: Axes | None = None) -> Axes:
    """Boxes of one layer: median, quartiles, 5% to 95%. Tags are in the order of their medians in the last layer, the largest
    first, so that the pictures of all layers can be laid side by side; behind each is how many tokens it has."""
    medians = result.self_contribution_quantiles.sel(quantile=0.5).isel(layer=-1).values
    order = [place for place in np.argsort(-medians, kind="stable") if result.tokens[place] > 0]
    ax = ax or Figure(figsize=(2 + 0.26 * len(order), 4.5), layout="constrained").subplots()
    shown = result.isel(tag=order).sel(layer=layer)
    names: tuple[str, ...] = ("whislo", "q1", "med", "q3", "whishi")
    for place, tag in enumerate(shown["tag"].values):
        own = shown.self_contribution_quantiles.isel(tag=place).values
        box = {name: float(value) for name, value in zip(names, own, strict=True)}
        edge, face = SPECIAL if tag.startswith("[") else WORDS
        ax.bxp(
            [box], positions=[place], showfliers=False, widths=0.6, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": face, "edgecolor": edge}, medianprops={"color": edge, "linewidth": 2},
            whiskerprops={"color": edge}, capprops={"color": edge},
        )  # fmt: skip
    labels = [f"{tag}  {int(count):,}" for tag, count in zip(shown["tag"].values, shown.tokens.values, strict=True)]
    ax.set_xticks(range(len(order)), labels, rotation=90, fontsize=8, parse_math=False)
    ax.set_xlim(-0.7, len(order) - 0.3)
    ax.set_xlabel("tag and number of tokens  (box: median and quartiles; whiskers: 5% to 95%)")
    ax.set_ylabel(f"self-contribution, layer {layer}")
    mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)
    return ax
