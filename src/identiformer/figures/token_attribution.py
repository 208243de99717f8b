"""Where hidden vectors came from: one token's layers as in Figures 19 to 25, and all tokens as in Figures 3 and 4."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from identiformer.figures.naming import short_name
from identiformer.figures.percent import mark_percent
from identiformer.figures.tokens import label_tokens

BOX, LINE = "#0072B2", "#D55E00"
STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1)), (0, (1, 3)))
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")


def draw_token_attribution(result: xr.Dataset, target: int, ax: Axes | None = None) -> Axes:
    """What one token's hidden vector is made of: a row a layer, a column an input token, dots on the main contributors.

    A hollow dot is a main contributor that the error leaves undecided. Color follows the square root of the contribution.
    """
    one = result.sel(target=target)
    layers = one["layer"].values
    ax = (
        ax
        or Figure(figsize=(max(6, 1.5 + 0.28 * one.sizes["source"]), 1.6 + 0.28 * len(layers)), layout="constrained").subplots()
    )
    shown = np.arange(len(layers))
    largest = float(one.contribution.max())
    image = ax.imshow(
        one.contribution.values, norm=PowerNorm(0.5, 0, largest), cmap="Blues", aspect="auto", origin="lower",
        interpolation="nearest",
    )  # fmt: skip
    for certain, face in ((True, LINE), (False, "white")):
        chosen = one.main_contributor_certain.values == certain
        places = one.main_contributor.values[chosen]
        ax.plot(places, shown[chosen], "o", markersize=5, markerfacecolor=face, markeredgecolor=LINE, markeredgewidth=1.4)
    room = int(ax.get_window_extent().width / ax.figure.dpi * 5)  # five upright labels an inch stay legible
    label_tokens(ax.xaxis, [str(token) for token in one.source_token.values], rotation=90, most=room)
    ax.set_yticks(shown, [str(layer) for layer in layers], fontsize=8)
    ax.set_xlabel("source: the input token  (dot: the main contributor in a layer; hollow: undecided)")
    ax.set_ylabel("layer")
    title = f"{short_name(result.attrs['model'])}: what the hidden vector of ‘{one.target_token.values}’ at {target} is made of"
    ax.set_title(title, fontsize=11, parse_math=False)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.01, label="contribution (color: square root)")
    mark_percent(bar.ax.yaxis)
    return ax


def draw_self_contribution(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """How much of a token is left in its own hidden vector: a box a layer over all tokens, and a line for the share of tokens
    that are not their own main contributor. Fig. 3."""
    ax = ax or Figure(figsize=(7, 4), layout="constrained").subplots()
    layers = result["layer"].values
    ax.boxplot(
        list(result.self_contribution.values), positions=layers, showfliers=False, widths=0.55, patch_artist=True,
        boxprops={"facecolor": "#cfe3f2", "edgecolor": BOX}, medianprops={"color": BOX, "linewidth": 2},
        whiskerprops={"color": BOX}, capprops={"color": BOX},
    )  # fmt: skip
    strangers = (result.main_contributor != result.target).mean("target")
    ax.plot(layers, strangers, "s--", color=LINE, label="tokens that are not their own main contributor")
    ax.plot([], [], color=BOX, linewidth=2, label="self-contribution: median, quartiles, range")
    ax.set_xticks(layers, [str(layer) for layer in layers])
    ax.set_xlabel("layer")
    ax.set_ylabel("share")
    ax.set_ylim(-0.02, max(0.5, float(result.self_contribution.max()) * 1.05, float(strangers.max()) * 1.1))
    mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def draw_contribution_by_neighbors(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """In which layers near and far neighbors contribute: the share of each layer in a group's contribution. Fig. 4a."""
    ax = ax or Figure(figsize=(7, 4), layout="constrained").subplots()
    shares = result.by_neighbors / result.by_neighbors.sum("layer")
    for group, style, color in zip(shares["group"].values, STYLES, COLOURS, strict=True):
        if np.isfinite(shares.sel(group=group)).any():
            ax.plot(shares["layer"], shares.sel(group=group), linestyle=style, color=color, marker="o", markersize=3, label=group)
    ax.set_xlabel("layer")
    ax.set_ylabel("share of the group's contribution")
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False, title="neighbor", ncols=2)
    return ax


def draw_contribution_by_distance(result: xr.Dataset, layers: Sequence[int] | None = None, ax: Axes | None = None) -> Axes:
    """How far away the tokens are that others contribute from: first, middle and last layer unless told otherwise. Fig. 4b."""
    ax = ax or Figure(figsize=(7, 4), layout="constrained").subplots()
    every = result["layer"].values
    layers = layers or sorted({int(every[0]), int(every[(len(every) - 1) // 2]), int(every[-1])})
    others = result["distance"].values != 0
    for layer, style, color in zip(layers, STYLES, COLOURS, strict=False):
        shares = result.by_distance.sel(layer=layer).where(others)  # a token's own contribution is not part of it
        ax.plot(result["distance"], shares, linestyle=style, color=color, label=f"layer {layer}")
    ax.set_xlabel("distance: source less target, in tokens")
    ax.set_ylabel("share of others' contribution")
    mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False)
    return ax
