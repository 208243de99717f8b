"""Maps against yardsticks: scores with intervals over examples, over all layers and layer by layer."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.style import COLORS, LINE_STYLES, MARKERS, draws, finish_layers

PANELS = 6
"""Panels side by side."""
RAW = "raw"
VARIANTS = {"": "all sources", "_words": "words only", "_others": "other tokens only"}
"""Sources that variants of a yardstick count, by the end of their name; they share a panel."""
ENDS = (("_low", np.nanmin), ("_high", np.nanmax))
LINES = 6
"""Maps whose lines stay legible in one panel."""


@draws("corpus_faithfulness")
def draw_comparison(result: xr.Dataset, axes: Sequence[Axes] | None = None, *, explanations: bool = False) -> Sequence[Axes]:
    """Draw the score of every map on every yardstick, with its 95% interval: one row per map, one panel per yardstick.

    Parameters
    ----------
    result : xarray.Dataset
        Of `compare`, or of `faithfulness` on several texts.
    axes : sequence of matplotlib.axes.Axes, optional
        One per panel; a new figure by default. A yardstick and its variants that count fewer sources share a panel.
    explanations : bool
        Draw explanations of the output in place of maps of layers.

    Returns
    -------
    sequence of matplotlib.axes.Axes
    """
    maps, yardsticks, score = (
        ("explanation", "explanation_yardstick", "explanation_score") if explanations else ("map", "yardstick", "score")
    )
    names = [str(name) for name in result[yardsticks].values]
    panels = _panels(names)
    order = _order(result[score].sel({yardsticks: panels[0]}))
    rows = np.arange(len(order))[::-1]
    if axes is None:
        axes = _grid(len(panels), 2.4, 1.6 + 0.3 * len(order), 2.6)
    for number, (ax, name) in enumerate(zip(axes, panels, strict=True)):
        title = str(result[f"{yardsticks}_title"].sel({yardsticks: name}).item())
        drawn = [ending for ending in VARIANTS if f"{name}{ending}" in names]
        for place, ending in enumerate(drawn):
            shown = result.sel({yardsticks: f"{name}{ending}"}).isel({maps: order})
            offset = 0.22 * ((len(drawn) - 1) / 2 - place)
            _dots(ax, shown, score, rows + offset, VARIANTS[ending], list(VARIANTS).index(ending))
        if RAW in result[maps].values:
            ax.axvline(float(result[score].sel({maps: RAW, yardsticks: name})), color=COLORS[1], linewidth=1, linestyle=":")
        titles = [str(each) for each in result[f"{maps}_title"].values[order]]
        ax.set_yticks(rows, titles if number % PANELS == 0 else [], fontsize=9, parse_math=False)
        for tick, index in zip(ax.get_yticklabels(), order, strict=False):
            tick.set_color(COLORS[1] if result[maps].values[index] == RAW else "black")
        ax.set_ylim(-0.8, len(order) - 0.2)
        ax.grid(alpha=0.25)
        ax.tick_params(axis="y", length=0)
        _set_title(ax, title)
        ax.set_xlabel("score")
    lowest, highest = (float(result[f"{score}{end}"].fillna(result[score]).reduce(pick)) for end, pick in ENDS)
    if lowest >= -1 and highest <= 1:  # correlations and the like; other yardsticks have scales of their own
        for ax in axes:
            ax.set_xlim(min(lowest, 0) - 0.04, 1.04)
    if len(panels) < len(names):
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return axes


@draws("corpus_faithfulness")
def draw_comparison_layers(result: xr.Dataset, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Draw scores layer by layer with their 95% intervals: one panel per yardstick, and the maps that score highest.

    Parameters
    ----------
    result : xarray.Dataset
        Of `compare`, or of `faithfulness` on several texts.
    axes : sequence of matplotlib.axes.Axes, optional
        One per yardstick that counts all sources; a new figure by default.

    Returns
    -------
    sequence of matplotlib.axes.Axes
    """
    panels = _panels([str(name) for name in result["yardstick"].values])
    maps = _shown_maps(result.score.sel(yardstick=panels))
    if axes is None:
        axes = _grid(len(panels), 3.1, 3.4, 0.6, most=3)
    for ax, name in zip(axes, panels, strict=True):
        for number, shown in zip((1, 0, *range(2, LINES)), maps, strict=False):  # raw attention in its color
            curve = result.sel(map=shown, yardstick=name)
            style = {"color": COLORS[number], "linestyle": LINE_STYLES[number], "marker": MARKERS[number], "markersize": 4}
            ax.fill_between(curve["layer"], curve.layer_score_low, curve.layer_score_high, color=COLORS[number], alpha=0.15, lw=0)
            ax.plot(curve["layer"], curve.layer_score, label=str(curve.map_title.item()), linewidth=1.4, **style)
        finish_layers(ax, "score", percent=False)
        _set_title(ax, str(result.yardstick_title.sel(yardstick=name).item()))
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside upper center", ncols=min(3, len(axes)), frameon=False, fontsize=9)
    return axes


def _set_title(ax: Axes, title: str) -> None:
    """The title of a yardstick: what is done, and below it where the effect is measured."""
    done, *where = title.split(", ")
    ax.set_title(f"{done}\n{', '.join(where)}", fontsize=9.5, parse_math=False)


def _panels(names: Sequence[str]) -> list[str]:
    """Yardsticks without the variants of others."""
    bases = {name: next((name.removesuffix(end) for end in VARIANTS if end and name.endswith(end)), name) for name in names}
    return [name for name, base in bases.items() if base == name or base not in names]


def _dots(ax: Axes, shown: xr.Dataset, score: str, rows: np.ndarray, label: str, variant: int) -> None:
    """Marks with intervals; those of raw attention in its color."""
    maps = "explanation" if "explanation" in shown[score].dims else "map"
    colors = [COLORS[1] if name == RAW else COLORS[0] for name in shown[maps].values]
    low, high = shown[f"{score}_low"].values, shown[f"{score}_high"].values
    ax.hlines(rows, low, high, colors=colors, linewidth=1.5, alpha=0.8)
    faces = "white" if variant else colors
    style = {"s": (26, 16, 14)[variant], "marker": "ooD"[variant], "facecolors": faces, "edgecolors": colors, "zorder": 3}
    ax.scatter(shown[score].values, rows, label=label, **style)


def _order(scores: xr.DataArray) -> np.ndarray:
    """From the highest score to the lowest; undefined ones last."""
    return np.argsort(-np.nan_to_num(scores.values, nan=-np.inf), kind="stable")


def _shown_maps(scores: xr.DataArray) -> list[str]:
    """Raw attention, and the maps that score highest on some yardstick, and then those that score highest on average."""
    names = [str(name) for name in scores["map"].values]
    filled = np.nan_to_num(scores.transpose("map", "yardstick").values, nan=-np.inf)
    best = [names[index] for index in filled.argmax(0)]
    average = [names[index] for index in np.argsort(-filled.mean(1), kind="stable")]
    first = [RAW] if RAW in names else []
    return list(dict.fromkeys([*first, *best, *average]))[:LINES]


def _grid(panels: int, width: float, height: float, left: float, most: int = PANELS) -> list[Axes]:
    """Axes side by side, in as many rows as needed."""
    columns = min(panels, most)
    lines = -(-panels // columns)
    figure = Figure(figsize=(left + width * columns, height * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for unused in axes[panels:]:
        unused.remove()
    return list(axes[:panels])
