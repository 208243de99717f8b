"""What a corpus shows: attention received by kinds of tokens, correlation by length, self-contribution. Figs. 1 and 3."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.layers import draw_over_layers
from identiformer.figures.percent import mark_percent

COLOURS = ("#0072B2", "#D55E00", "#009E73")


def draw_received_by_kind(result: xr.Dataset, which: str = "raw", ax: Axes | None = None) -> Axes:
    """The attention that [CLS], [SEP] and punctuation receive: a dot a head, a line through the means. Figs. 1b and 1c."""
    received = result[f"{which}_received"]
    kinds = {str(kind): received.sel(kind=kind) for kind in result["kind"].values}
    return draw_over_layers(kinds, f"{which} attention received", ax)


def draw_correlation_by_length(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """The correlation of raw with effective attention, over the lengths that texts have. Fig. 1a."""
    ax = ax or Figure(figsize=(6, 4), layout="constrained").subplots()
    seen = result.isel(length=np.flatnonzero(result.texts_by_length.values))
    sizes = 8 + 4 * np.sqrt(seen.texts_by_length.values)
    ax.scatter(seen["length"], seen.correlation_by_length, s=sizes, alpha=0.6, color=COLOURS[0], linewidths=0)
    ax.set_xlabel("tokens of a text")
    ax.set_ylabel("correlation of A with A⊥, mean over heads")
    ax.grid(alpha=0.3)
    return ax


def draw_self_contribution_quantiles(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """How much of a token is left in its own vector, and how many are made of another token more than of themselves. Fig. 3."""
    ax = ax or Figure(figsize=(7, 4), layout="constrained").subplots()
    layers, quantiles = result["layer"].values, result.self_contribution_quantiles
    names: tuple[str, ...] = ("whislo", "q1", "med", "q3", "whishi")
    boxes = [
        {name: float(value) for name, value in zip(names, quantiles.sel(layer=layer).values, strict=True)} for layer in layers
    ]
    style = {"boxprops": {"facecolor": "#cfe3f2", "edgecolor": COLOURS[0]}, "medianprops": {"color": COLOURS[0], "linewidth": 2}}
    ax.bxp(boxes, positions=layers, showfliers=False, widths=0.55, patch_artist=True, **style)
    ax.plot(layers, result.not_own_main, "s--", color=COLOURS[1], label="tokens that are not their own main contributor")
    ax.plot([], [], color=COLOURS[0], linewidth=2, label="self-contribution: median, quartiles, 5% to 95%")
    ax.set_xticks(layers, [str(layer) for layer in layers])
    ax.set_xlabel("layer")
    ax.set_ylabel("share")
    mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def draw_between_separators(result: xr.Dataset, which: str = "raw", ax: Axes | None = None) -> Axes:
    """What [SEP] receives from each other token, and from each [SEP]: a dot a head, a line through the means. Fig. 5."""
    senders = {"others to [SEP]": result[f"{which}_from_others"], "[SEP] to [SEP]": result[f"{which}_from_separators"]}
    return draw_over_layers(senders, f"{which} attention, of each token", ax)


def draw_first_token(result: xr.Dataset, by: str = "position", ax: Axes | None = None) -> Axes:
    """What others give to the first token, [CLS], in all texts: by position, or by distance from the first [SEP]. Fig. 18."""
    ax = ax or Figure(figsize=(7, 4), layout="constrained").subplots()
    name, axis, label = {
        "position": ("cls_by_position", "position", "position of the source"),
        "separator": ("cls_from_separator", "distance", "source less first [SEP], in tokens"),
    }[by]
    layers = result["layer"].values
    some = sorted({int(layers[0]), int(layers[(len(layers) - 1) // 2]), int(layers[-1])})
    for layer, style, color in zip(some, ("-", "--", ":"), COLOURS, strict=False):
        shares = result[name].sel(layer=layer)
        seen = shares[axis].values[shares.values > 0]
        ax.plot(seen, shares.sel({axis: seen}), style, color=color, label=f"layer {layer}")
    ax.set_xlabel(label)
    ax.set_ylabel("share of what the first token gets from others")
    mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False)
    return ax
