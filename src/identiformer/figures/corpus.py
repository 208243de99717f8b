"""Corpus runs: attention received by kinds of tokens, correlation by length, self-contribution by layer and by tag."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from identiformer.figures.style import (
    COLORS,
    LINE_STYLES,
    axes_or_new,
    draw_boxes,
    draw_over_layers,
    draws,
    finish_layers,
    mark_percent,
    quantile_box,
)
from identiformer.figures.token_attribution import draw_mixing
from identiformer.results.schema import first_middle_last

WORDS, SPECIAL = ("#0072B2", "#cfe3f2"), ("#D55E00", "#f7dccb")
"""Edge and face colors of boxes."""


@draws("corpus_effective_attention")
def draw_received_by_kind(result: xr.Dataset, which: str = "raw", ax: Axes | None = None) -> Axes:
    """Draw the attention that [CLS], [SEP] and punctuation receive: one dot per head, a line through the means. Figs. 1b, 1c.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a corpus run's `effective_attention`.
    which : {"raw", "effective"}
        Which attention to draw.
    """
    received = result[f"{which}_received"]
    kinds = {str(kind): received.sel(kind=kind) for kind in result["kind"].values}
    return draw_over_layers(kinds, f"{which} attention received", ax)


@draws("corpus_effective_attention")
def draw_between_separators(result: xr.Dataset, which: str = "raw", ax: Axes | None = None) -> Axes:
    """Draw the attention to [SEP] from each other token and from each [SEP], per head and on average. Fig. 5.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a corpus run's `effective_attention`.
    which : {"raw", "effective"}
        Which attention to draw.
    """
    senders = {"others to [SEP]": result[f"{which}_from_others"], "[SEP] to [SEP]": result[f"{which}_from_separators"]}
    return draw_over_layers(senders, f"{which} attention per token", ax)


@draws("corpus_effective_attention")
def draw_correlation_by_length(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw the correlation of raw with effective attention over the lengths of texts. Fig. 1a.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a corpus run's `effective_attention`.
    """
    ax = axes_or_new(ax, 6, 4)
    present = result.isel(length=np.flatnonzero(result.texts_by_length.values))
    sizes = 8 + 4 * np.sqrt(present.texts_by_length.values)
    ax.scatter(present["length"], present.correlation_by_length, s=sizes, alpha=0.6, color=COLORS[0], linewidths=0)
    ax.set(xlabel="text length (tokens)", ylabel="correlation of A with A⊥, mean over heads")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(alpha=0.3)
    return ax


@draws("corpus_token_attribution")
def draw_self_contribution_quantiles(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw quantiles of self-contribution per layer, and how many tokens are not their own main contributor. Fig. 3.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a corpus run's `token_attribution`.
    """
    quantiles = result.self_contribution_quantiles.transpose("layer", "quantile").values
    return draw_mixing([quantile_box(row) for row in quantiles], result.not_own_main, "median, quartiles, 5% to 95%", ax)


@draws("corpus_token_attribution")
def draw_first_token(result: xr.Dataset, by: str = "position", ax: Axes | None = None) -> Axes:
    """Draw what other tokens contribute to the first token, [CLS], in the first, middle and last layer. Fig. 18.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a corpus run's `token_attribution`.
    by : {"position", "separator"}
        Whether sources are shown by position, or by distance from the first [SEP].
    """
    ax = axes_or_new(ax)
    name, axis, label = {
        "position": ("cls_by_position", "position", "source position"),
        "separator": ("cls_from_separator", "distance", "source position − position of the first [SEP]"),
    }[by]
    for layer, style, color in zip(first_middle_last(result["layer"].values), LINE_STYLES, COLORS, strict=False):
        shares = result[name].sel(layer=layer)
        present = shares[axis].values[shares.values > 0]
        ax.plot(present, shares.sel({axis: present}), linestyle=style, color=color, label=f"layer {layer}")
    finish_layers(ax, "share of the contribution to [CLS]")
    ax.set_xlabel(label)
    ax.legend(frameon=False)
    return ax


@draws("corpus_self_contribution_by_tag")
def draw_self_contribution_by_tag(result: xr.Dataset, layer: int, ax: Axes | None = None) -> Axes:
    """Draw quantiles of self-contribution by part-of-speech tag in one layer. Figs. 26-37.

    Tags are ordered by their median in the last layer, largest first, so that the figures of all layers can be compared.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a corpus run's `self_contribution_by_tag`.
    layer : int
        The layer to draw, counted from 1.
    """
    medians = result.self_contribution_quantiles.sel(quantile=0.5).isel(layer=-1).values
    order = [tag for tag in np.argsort(-medians, kind="stable") if result.tokens[tag] > 0]
    ax = axes_or_new(ax, 2 + 0.26 * len(order), 4.5)
    shown = result.isel(tag=order).sel(layer=layer)
    for position, tag in enumerate(shown["tag"].values):
        box = quantile_box(shown.self_contribution_quantiles.isel(tag=position).values)
        draw_boxes(ax, [box], [position], *(SPECIAL if tag.startswith("[") else WORDS))
    labels = [f"{tag}  {int(count):,}" for tag, count in zip(shown["tag"].values, shown.tokens.values, strict=True)]
    ax.set_xticks(range(len(order)), labels, rotation=90, fontsize=8, parse_math=False)
    xlabel = "tag and number of tokens\n(box: median and quartiles; whiskers: 5% to 95%)"
    ax.set(xlim=(-0.7, len(order) - 0.3), xlabel=xlabel, ylabel=f"self-contribution, layer {layer}")
    mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)
    return ax
