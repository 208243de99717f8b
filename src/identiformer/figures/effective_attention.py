"""Raw, effective and null attention side by side, as in Figure 6, and how they differ from layer to layer."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm
from matplotlib.figure import Figure

from identiformer.figures.naming import short_name
from identiformer.figures.tokens import label_tokens

MAPS = {"raw": "raw attention  A", "effective": "effective  A⊥", "null": "null  A∥"}


def draw_attention_maps(result: xr.Dataset, layer: int, head: int, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Three maps of one head on one color scale, A = A⊥ + A∥: red adds, blue takes away, white is nothing.

    Attention is mostly near zero, so color follows the square root of a weight and is full from the 99th percentile on.
    """
    if axes is None:
        axes = list(Figure(figsize=(13, 5.2), layout="constrained").subplots(1, 3, sharey=True))
    one = result.sel(layer=layer, head=head)
    limit = max(float(np.quantile(np.abs(one["raw"]), 0.99)), 1e-6)
    norm = FuncNorm((_signed_root, _signed_square), vmin=-limit, vmax=limit)
    image = None
    for ax, (name, title) in zip(axes, MAPS.items(), strict=True):
        image = ax.imshow(one[name].values, norm=norm, cmap="RdBu_r", aspect="auto", interpolation="nearest")
        ax.set_title(title, fontsize=11)
        label_tokens(ax.xaxis, [str(token) for token in one.key_token.values], rotation=90)
        label_tokens(ax.yaxis, [str(token) for token in one.query_token.values], rotation=0)
        ax.set_xlabel("key: the token attended to")
    axes[0].set_ylabel("query: the token that attends")
    figure = axes[0].figure
    figure.suptitle(f"{short_name(result.attrs['model'])}, layer {layer}, head {head}", fontsize=12, parse_math=False)
    assert image is not None
    label = "attention weight (color: square root)"
    bar = figure.colorbar(image, ax=list(axes), shrink=0.85, pad=0.01, label=label, extend="both")
    ticks = [limit * share for share in (-1, -0.25, -0.04, 0, 0.04, 0.25, 1)]
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    return axes


def _signed_root(value: np.ndarray) -> np.ndarray:
    return np.sign(value) * np.sqrt(np.abs(value))


def _signed_square(value: np.ndarray) -> np.ndarray:
    return np.sign(value) * np.square(value)


def draw_layer_summary(result: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Correlation of raw with effective attention, and null mass, per layer: a dot a head, a line through the means."""
    if ax is None:
        ax = Figure(figsize=(7, 4), layout="constrained").subplots()
    series = {
        "correlation": ("correlation of A with A⊥", "#0072B2", "o", -0.12),
        "null_mass": ("null mass (share the output cannot see)", "#D55E00", "s", 0.12),
    }
    layers = result["layer"].values
    for name, (label, color, marker, shift) in series.items():
        values = result[name].transpose("layer", "head").values
        places = np.repeat(layers[:, None] + shift, values.shape[1], 1)
        ax.scatter(places, values, s=14, alpha=0.45, color=color, marker=marker, linewidths=0)
        with np.errstate(all="ignore"):
            means = np.array([np.nanmean(row) if np.isfinite(row).any() else np.nan for row in values])
        ax.plot(layers + shift, means, color=color, marker=marker, label=label)
    ax.set_xlabel("layer")
    ax.set_ylabel("per head (dots) and mean (line)")
    ax.set_ylim(-0.05, 1.05)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False)
    return ax
