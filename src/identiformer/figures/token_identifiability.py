"""Token identifiability over the layers: Figures 2, 7-17, 38 and 39."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.naming import short_name

# Okabe and Ito's palette, told apart by those who see few colors; losses differ by line and marker as well.
COLOURS = {"naive": "#000000", "linear": "#0072B2", "mlp": "#D55E00", "procrustes": "#009E73"}
LINES = {"cosine": ("-", "o"), "l2": (":", "s")}
NAMES = {"naive": "naive", "linear": "linear", "mlp": "MLP", "procrustes": "orthogonal", "cosine": "cosine", "l2": "L2"}
SEQUENCE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"


def draw_token_identifiability(result: xr.Dataset, beside: xr.Dataset | None = None, ax: Axes | None = None) -> Axes:
    """The rate of every probe over the layers, its interval shaded, and that of guessing; another model dashed (2a, 11-13).

    Takes results of `token_identifiability` and `token_steps`. Where two models are compared, a line's style tells the model and
    its color the probe; otherwise its style tells the loss and its color the kind of probe.
    """
    ax = ax or Figure(figsize=(7.5, 4.6), layout="constrained").subplots()
    for number, name in enumerate(result["probe"].values):
        kind, loss, *width = str(name).split()
        style, marker = LINES[loss]
        color = COLOURS[kind]
        if beside is not None:
            style, color = "-", SEQUENCE[number % len(SEQUENCE)]
        one = result.sel(probe=name)
        label = " ".join([NAMES[kind], *width, NAMES[loss]])
        _line(ax, one["layer"].values, one, label, color, style, marker)
        if beside is not None and name in beside["probe"].values:
            other = beside.sel(probe=name)
            label = f"{label}, {short_name(beside.attrs['model'])}"
            ax.plot(other["layer"], 100 * other["rate"], "--", color=color, marker=marker, ms=4, mfc="white", label=label)
    return _finish(ax, result, "layer")


def draw_train_and_test(result: xr.Dataset, loss: str = "l2", ax: Axes | None = None) -> Axes:
    """The rates of learned maps of one loss on the examples they were trained on, dashed, and on others (Fig. 7)."""
    ax = ax or Figure(figsize=(7.5, 4.6), layout="constrained").subplots()
    for name in result["probe"].values:
        kind, own, *_ = str(name).split()
        if own == loss and kind != "naive":
            one, label = result.sel(probe=name), f"{NAMES[kind]} {NAMES[loss]}"
            _line(ax, one["layer"].values, one, f"{label}, test", COLOURS[kind], "-", "o")
            ax.plot(one["layer"], 100 * one["train_rate"], "--", color=COLOURS[kind], marker="o", ms=4, mfc="white",
                    label=f"{label}, training")  # fmt: skip
    return _finish(ax, result, "layer")


def draw_token_transfer(result: xr.Dataset, probe: str | None = None, ax: Axes | None = None) -> Axes:
    """The rate at every layer of maps trained on one, a line each (Fig. 2b, 8-10)."""
    ax = ax or Figure(figsize=(7.5, 4.6), layout="constrained").subplots()
    one = result.sel(probe=probe or result["probe"].values[0])
    for number, trained in enumerate(_few(one["trained"].values)):
        lines = one.sel(trained=trained)
        _line(ax, one["layer"].values, lines, f"trained on layer {trained}", *_style(number))
        own = lines.sel(layer=trained)
        ax.plot(trained, 100 * own["rate"], "o", ms=11, mfc="none", mec=_style(number)[0])
    ax = _finish(ax, result, "layer tested on (a ring: the one trained on)")
    ax.set_title(f"{_title(result)}: {one['probe'].item()}", fontsize=11, parse_math=False)
    return ax


def draw_token_neighbors(result: xr.Dataset, probe: str | None = None, ax: Axes | None = None) -> Axes:
    """The rate at which tokens beside are found: previous ones blue, next ones red, the farther the lighter (Fig. 14-17)."""
    ax = ax or Figure(figsize=(7.5, 4.6), layout="constrained").subplots()
    one = result.sel(probe=probe or result["probe"].values[0])
    farthest = int(np.abs(one["offset"].values).max())
    for offset in one["offset"].values:
        before, distance = offset < 0, abs(int(offset))
        label = f"{'previous' if before else 'next'}, {distance} away"
        style = ("-", "--", ":", "-.")[(distance - 1) % 4]
        ax.plot(
            one["layer"],
            100 * one["rate"].sel(offset=offset),
            style,
            color="#0072B2" if before else "#D55E00",
            alpha=1 - 0.5 * (distance - 1) / max(farthest, 1),
            marker="o" if before else "s",
            ms=4,
            label=label,
        )
    ax = _finish(ax, result, "layer")
    ax.set_title(f"{_title(result)}: {one['probe'].item()}", fontsize=11, parse_math=False)
    return ax


def draw_learning_curve(result: xr.Dataset, layer: int | None = None, ax: Axes | None = None) -> Axes:
    """The rate over shares of the training examples, a line a probe, at one layer (the last without it). B.2"""
    ax = ax or Figure(figsize=(7.5, 4.6), layout="constrained").subplots()
    number = int(result["layer"].values[-1] if layer is None else layer)
    at = result.sel(layer=number)
    for name in at["probe"].values:
        kind, loss, *width = str(name).split()
        style, marker = LINES[loss]
        label = " ".join([NAMES[kind], *width, NAMES[loss]])
        _line(ax, 100 * at["share"].values, at.sel(probe=name), label, COLOURS[kind], style, marker)
    ax = _finish(ax, result, "training examples used, %")
    ax.set_xticks(100 * at["share"].values)
    ax.set_title(f"{_title(result)}: layer {number}", fontsize=11, parse_math=False)
    return ax


def _line(ax: Axes, places: np.ndarray, one: xr.Dataset, label: str, color: str, style: str, marker: str) -> None:
    ax.plot(places, 100 * one["rate"], style, color=color, marker=marker, ms=4, label=label)
    ax.fill_between(places, 100 * one["rate_low"], 100 * one["rate_high"], color=color, alpha=0.15, linewidth=0)


def _style(number: int) -> tuple[str, str, str]:
    return SEQUENCE[number % len(SEQUENCE)], "-", MARKERS[number % len(MARKERS)]


def _few(layers: np.ndarray) -> Sequence[int]:
    """Some layers, where lines for all would be too many to tell apart: the first, the middle and the last two."""
    if len(layers) <= len(SEQUENCE):
        return [int(layer) for layer in layers]
    return [int(layers[place]) for place in sorted({0, len(layers) // 2 - 1, len(layers) - 2, len(layers) - 1})]


def _title(result: xr.Dataset) -> str:
    return f"{short_name(result.attrs['model'])}, {result.attrs['tokens']} tokens"


def _finish(ax: Axes, result: xr.Dataset, places: str) -> Axes:
    hit = {"strict": "the very token", "lenient": "its word piece"}[result.attrs["headline"]]
    ax.axhline(100 * float(result["random_rate"]), color="#777777", linewidth=1, linestyle=(0, (1, 2)), label="guessing")
    ax.set_xlabel(places)
    ax.set_ylabel(f"token identifiability rate, % ({hit})")
    ax.set_ylim(-2, 102)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    ax.grid(axis="y", alpha=0.3)
    ax.set_title(_title(result), fontsize=11, parse_math=False)
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax
