"""The reading of an attention map: how much of each layer's attention passes every test, and which part of one head's map."""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from identiformer.equations.certificates.contributions import Cascade
from identiformer.errors import InputError
from identiformer.figures.style import SEQUENTIAL, axes_or_new, draws, label_tokens, mark_percent, set_title, short_name
from identiformer.measures.heads.example import knows_own_content

PARTS = {
    "readable": ("#0b4f8a", "white", "attributed to the token it points to"),
    "mixed": ("#8ec1e8", "black", "contributes, attributed to other tokens"),
    "noncontributing": ("#e8a33d", "black", "does not contribute"),
    "free": ("#dddddd", "black", "could be on other keys, with the same output"),
    "contributing": ("#3b82b8", "white", "contributes to the output"),
}
"""The parts of attention: color, color of text on it, and meaning. *Contributing* is readable and mixed, not distinguished."""
MOST_LABELS = 50
"""Token labels that stay legible along one axis: the maps are larger than those of other figures."""
LABELED = 0.045
"""The smallest share with a label in its bar."""


@draws("attention_reading")
def draw_cascade(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw which parts of each layer's attention are readable, mixed, noncontributing and free: one bar per layer.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `attention_reading`. Without an attribution, readable and mixed are one part; without certified bounds, no
        weight is free.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    layers = result["layer"].values
    ax = axes_or_new(ax, 9, 1.7 + min(0.42 * len(layers), 6))
    positions, left = np.arange(len(layers)), np.zeros(len(layers))
    for name, shares in _parts(result).items():
        color, text_color, meaning = PARTS[name]
        bars = ax.barh(positions, shares, left=left, height=0.78, color=color, label=f"{name}: {meaning}")
        labels = [f"{share:.0%}" if share >= LABELED else "" for share in shares]
        ax.bar_label(bars, labels, label_type="center", color=text_color, fontsize=9)
        left = left + np.nan_to_num(shares)
    ax.set_yticks(positions, [f"layer {layer}" for layer in layers])
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    mark_percent(ax.xaxis)
    ax.set_xlabel("share of the attention weight, mean over heads")
    ax.legend(ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1, handlelength=1, fontsize=9)
    ax.set_title(_finding(result), loc="left", pad=42, fontsize=12, fontweight="bold", parse_math=False)
    return ax


def _finding(result: xr.Dataset) -> str:
    """How much of the attention passes all tests, as far as they were made."""
    known = knows_own_content(result)
    share = float((result.readable if known else result.contributing).mean())
    at_most = "" if json.loads(result.attrs["settings"])["certified"] else "at most "
    verb = "is readable" if known else "contributes to the output"
    of = f"the attention of {short_name(result.attrs['model'])} on these {result.sizes['key']} tokens"
    finding = f"{at_most}{share:.0%} of {of} {verb}"
    return finding[0].upper() + finding[1:]


def _parts(result: xr.Dataset) -> dict[str, np.ndarray]:
    """The share of each part in each layer's attention; heads that were not certified are left out."""
    certified, contributing, readable = (result[name].mean("head").values for name in Cascade._fields)
    known = {"readable": readable, "mixed": contributing - readable}
    first = known if knows_own_content(result) else {"contributing": contributing}
    parts = {**first, "noncontributing": certified - contributing, "free": 1 - certified}
    return {name: shares for name, shares in parts.items() if name != "free" or shares.max() > 1e-6}


@draws("attention_reading")
def draw_readable_map(result: xr.Dataset, layer: int, head: int, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Draw the attention map of one head, and next to it what may be read of it, on the same color scale.

    Most weights are near zero, so color follows the square root of a weight and saturates at the 99th percentile.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `attention_reading`, or of `read` with maps=True. Without an attribution, the second map shows the weight
        that contributes.
    layer, head : int
        The head to draw; layers count from 1, heads from 0.
    axes : sequence of two matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    sequence of matplotlib.axes.Axes
    """
    if axes is None:
        axes = list(Figure(figsize=(13, 6.6), layout="constrained").subplots(1, 2, sharey=True))
    if "weight" not in result:
        raise InputError("expected an attention_reading with maps, got one without; read the text with maps=True.")
    one = result.sel(layer=layer, head=head)
    known = knows_own_content(one)
    left = one.readable_weight if known else one.contributing_weight
    share = float(one.readable if known else one.contributing)
    meaning = "what passes all tests" if known else "what contributes to its output"
    maps = {"what the head attends to": one.weight, f"{meaning}: {share:.0%} of the weight": left}
    norm = PowerNorm(0.5, 0, max(float(np.quantile(one.weight, 0.99)), 1e-6))
    images = []
    for ax, (title, entries) in zip(axes, maps.items(), strict=True):
        images.append(
            ax.imshow(np.nan_to_num(entries.values), norm=norm, cmap=SEQUENTIAL, aspect="auto", interpolation="nearest")
        )
        set_title(ax, title)
        label_tokens(ax.xaxis, [str(token) for token in one.key_token.values], rotation=90, most=MOST_LABELS)
        label_tokens(ax.yaxis, [str(token) for token in one.query_token.values], rotation=0, most=MOST_LABELS)
        ax.set_xlabel("key")
    axes[0].set_ylabel("query")
    figure = axes[0].figure
    figure.suptitle(f"{short_name(result.attrs['model'])}, layer {layer}, head {head}", fontsize=12, parse_math=False)
    bar = figure.colorbar(images[0], ax=list(axes), shrink=0.85, pad=0.01, label="weight (color: square root)", extend="max")
    mark_percent(bar.ax.yaxis)
    return axes
