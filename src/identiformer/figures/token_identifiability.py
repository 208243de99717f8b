"""Token identifiability over the layers: Figures 2, 7-17, 38 and 39."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib import ticker
from matplotlib.axes import Axes

from identiformer.figures.style import COLORS, MARKERS, axes_or_new, draws, set_title, short_name
from identiformer.results.schema import first_middle_last

WIDTH, HEIGHT = 7.5, 4.6
KIND_COLORS = {"naive": "#000000", "linear": "#0072B2", "mlp": "#D55E00", "procrustes": "#009E73"}
LOSS_STYLES = {"cosine": ("-", "o"), "l2": (":", "s")}
NAMES = {"naive": "naive", "linear": "linear", "mlp": "MLP", "procrustes": "orthogonal", "cosine": "cosine", "l2": "L2"}
HITS = {"strict": "exact position", "lenient": "same word piece"}
MOST_CURVES = 7
"""Curves that can be distinguished in one figure."""


@draws("token_identifiability", "token_steps")
def draw_token_identifiability(result: xr.Dataset, other: xr.Dataset | None = None, ax: Axes | None = None) -> Axes:
    """Draw the recovery rate of every probe over the layers with its 95% interval, and that of guessing. Figs. 2a, 11-13.

    Line style distinguishes losses and color kinds of probe; with another model, style distinguishes models and color probes.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_identifiability` or `token_steps`.
    other : xarray.Dataset, optional
        The same of another model, drawn as dashed lines.
    """
    ax = axes_or_new(ax, WIDTH, HEIGHT)
    for number, name in enumerate(result["probe"].values):
        label, color, style, marker = _probe_style(name)
        if other is not None:
            style, color = "-", COLORS[number % len(COLORS)]
        _draw_rates(ax, result["layer"].values, result.sel(probe=name), label, color, style, marker)
        if other is not None and name in other["probe"].values:
            _draw_dashed(ax, other.sel(probe=name).rate, f"{label}, {short_name(other.attrs['model'])}", color, marker)
    return _finish(ax, result, "layer")


@draws("token_identifiability")
def draw_train_and_test(result: xr.Dataset, loss: str = "l2", ax: Axes | None = None) -> Axes:
    """Draw the recovery rates of learned maps on training examples (dashed) and test examples. Fig. 7.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_identifiability`.
    loss : {"l2", "cosine"}
        Which of the probes to draw.
    """
    ax = axes_or_new(ax, WIDTH, HEIGHT)
    for name in result["probe"].values:
        kind, probe_loss, *_ = str(name).split()
        if probe_loss == loss and kind != "naive":
            label, color, _, _ = _probe_style(name)
            _draw_rates(ax, result["layer"].values, result.sel(probe=name), f"{label}, test", color, "-", "o")
            _draw_dashed(ax, result.train_rate.sel(probe=name), f"{label}, training", color, "o")
    return _finish(ax, result, "layer")


@draws("token_transfer")
def draw_token_transfer(result: xr.Dataset, probe: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the recovery rate at every layer of maps trained on one layer, which a ring marks. Figs. 2b, 8-10.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_transfer`.
    probe : str, optional
        Which probe to draw, such as "linear cosine"; the first by default.
    """
    ax = axes_or_new(ax, WIDTH, HEIGHT)
    rates = result.sel(probe=probe or result["probe"].values[0])
    trained = [int(layer) for layer in rates["trained"].values]
    if len(trained) > MOST_CURVES:
        trained = first_middle_last(trained, second_last=True)
    for layer, color, marker in zip(trained, COLORS, MARKERS, strict=False):
        curve = rates.sel(trained=layer)
        _draw_rates(ax, rates["layer"].values, curve, f"trained on layer {layer}", color, "-", marker)
        ax.plot(layer, 100 * curve.rate.sel(layer=layer), "o", ms=11, mfc="none", mec=color)
    return _finish(ax, result, "test layer (ring: training layer)", rates["probe"].item())


@draws("token_neighbors")
def draw_token_neighbors(result: xr.Dataset, probe: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the rate at which neighboring tokens are recovered: previous ones blue, next ones red. Figs. 14-17.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `token_neighbors`.
    probe : str, optional
        Which probe to draw, such as "linear cosine"; the first by default.
    """
    ax = axes_or_new(ax, WIDTH, HEIGHT)
    rates = result.sel(probe=probe or result["probe"].values[0])
    farthest = int(np.abs(rates["offset"].values).max())
    for offset in map(int, rates["offset"].values):
        side, color, marker = ("previous", COLORS[0], "o") if offset < 0 else ("next", COLORS[1], "s")
        distance = abs(offset)
        style: dict[str, Any] = {"linestyle": ("-", "--", ":", "-.")[(distance - 1) % 4], "color": color, "marker": marker}
        fading = 1 - 0.5 * (distance - 1) / max(farthest, 1)
        label = f"{side}, {distance} away"
        ax.plot(rates["layer"], 100 * rates.rate.sel(offset=offset), alpha=fading, ms=4, label=label, **style)
    return _finish(ax, result, "layer", rates["probe"].item())


@draws("learning_curve")
def draw_learning_curve(result: xr.Dataset, layer: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the recovery rate over the share of training examples used, one line per probe. B.2.

    Parameters
    ----------
    result : xarray.Dataset
        Result of `learning_curve`.
    layer : int, optional
        The layer to draw, counted from 1; the last by default.
    """
    ax = axes_or_new(ax, WIDTH, HEIGHT)
    number = int(result["layer"].values[-1] if layer is None else layer)
    rates = result.sel(layer=number)
    for name in rates["probe"].values:
        _draw_rates(ax, 100 * rates["share"].values, rates.sel(probe=name), *_probe_style(name))
    _finish(ax, result, "training examples used (%)", f"layer {number}")
    ax.set_xticks(100 * rates["share"].values)
    return ax


def _probe_style(name: Any) -> tuple[str, str, str, str]:
    """Label, color, line style and marker of a probe such as "mlp l2 3072"."""
    kind, loss, *width = str(name).split()
    return " ".join([NAMES[kind], *width, NAMES[loss]]), KIND_COLORS[kind], *LOSS_STYLES[loss]


def _draw_rates(ax: Axes, positions: np.ndarray, curve: xr.Dataset, label: str, color: str, style: str, marker: str) -> None:
    ax.plot(positions, 100 * curve["rate"], style, color=color, marker=marker, ms=4, label=label)
    ax.fill_between(positions, 100 * curve["rate_low"], 100 * curve["rate_high"], color=color, alpha=0.15, linewidth=0)


def _draw_dashed(ax: Axes, rate: xr.DataArray, label: str, color: str, marker: str) -> None:
    ax.plot(rate["layer"], 100 * rate, "--", color=color, marker=marker, ms=4, mfc="white", label=label)


def _finish(ax: Axes, result: xr.Dataset, xlabel: str, detail: str = "") -> Axes:
    ax.axhline(100 * float(result["random_rate"]), color="#777777", linewidth=1, linestyle=(0, (1, 2)), label="chance")
    ax.set(xlabel=xlabel, ylabel=f"recovery rate (%), {HITS[result.attrs['headline']]}", ylim=(-2, 102))
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.grid(axis="y", alpha=0.3)
    title = f"{short_name(result.attrs['model'])}, {result.attrs['tokens']} tokens"
    set_title(ax, f"{title}: {detail}" if detail else title)
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax
