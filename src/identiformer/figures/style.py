"""What all figures share: colors, axes, labels, boxes, and curves over the layers."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from identiformer.errors import InputError

Draw = TypeVar("Draw", bound=Callable[..., Any])

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which color-blind readers can distinguish; curves also differ in line style or marker."""
POSITIVE = ("#ffffff", "#9ecae1", "#3182bd", "#08306b")
NEGATIVE = ("#ffffff", "#fdbe85", "#e67814", "#7f2704")
"""The colors of maps, the same as on the page: blue is positive, orange negative, white zero. Negative cells are hatched too."""
SEQUENTIAL = LinearSegmentedColormap.from_list("identiformer", POSITIVE)
DIVERGING = LinearSegmentedColormap.from_list("identiformer_signed", (*NEGATIVE[:0:-1], *POSITIVE))
MARKERS = "os^Dv*P"
LINE_STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1)), (0, (1, 3)), (0, (3, 1)))
MOST_LABELS = 36
"""Token labels that stay legible along one axis of a map."""


AXES = """
ax : matplotlib.axes.Axes, optional
    Axes to draw on; a new figure by default.

Returns
-------
matplotlib.axes.Axes
"""
"""How the docstrings of most figures end."""


def draws(*measures: str) -> Callable[[Draw], Draw]:
    """Let a figure, a function of a result, reject results of other measures than those that it draws.

    A docstring that does not say what the figure returns also gets its axes.
    """

    def checked(draw: Draw) -> Draw:
        @functools.wraps(draw)
        def draw_checked(result: Any, *args: Any, **options: Any) -> Any:
            measure = getattr(result, "attrs", {}).get("measure")
            if measure not in measures:
                got = f"a {type(result).__name__}" if measure is None else f"one of {measure}"
                raise InputError(f"expected a result of {' or '.join(measures)}, which {draw.__name__} draws, got {got}.")
            return draw(result, *args, **options)

        if "Returns" not in (documented := inspect.getdoc(draw) or ""):
            draw_checked.__doc__ = documented + AXES
        return draw_checked  # pyright: ignore[reportReturnType]

    return checked


def hatch_negative(ax: Axes, entries: np.ndarray, limit: float) -> None:
    """Draw lines over the negative cells of a map, so that signs can be distinguished without colors."""
    rows, columns = entries.shape
    negative = np.where(entries < -limit / 200, 1.0, 0.0)
    if rows < 2 or columns < 2 or not negative.any():
        return
    hatching: Any = ax.contourf(negative, levels=[0.5, 1.5], colors="none", hatches=["/////"], extend="neither")
    hatching.set_edgecolor("#00000055")
    hatching.set_linewidth(0)


def axes_or_new(ax: Axes | None, width: int | float = 7, height: int | float = 4) -> Axes:
    """Return the axes, or those of a new figure of a size in inches."""
    return ax or Figure(figsize=(width, height), layout="constrained").subplots()


def short_name(model: str) -> str:
    """The name of a model without folders or owner, since figures are shown elsewhere."""
    return model.rstrip("/").rsplit("/", 1)[-1]


def set_title(ax: Axes, title: str) -> None:
    """Set a title in which model names and tokens are text, never a formula."""
    ax.set_title(title, fontsize=11, parse_math=False)


def mark_percent(axis: Axis) -> None:
    """Label the ticks of an axis in percent, with as many digits as each needs: 2.5% is not 2%."""
    axis.set_major_formatter(ticker.FuncFormatter(lambda share, _: f"{round(100 * share, 6) + 0.0:g}%"))


def label_tokens(axis: Any, tokens: list[str], rotation: int, most: int = MOST_LABELS) -> None:
    """Label an axis with tokens, skipping some where not all fit; token text is never a formula."""
    positions = list(range(0, len(tokens), -(-len(tokens) // most)))
    axis.set_ticks(positions, [tokens[position] for position in positions], rotation=rotation, fontsize=8, parse_math=False)


def finish_layers(ax: Axes, ylabel: str, percent: bool = True) -> None:
    """Label an axis of layers and one of shares."""
    ax.set(xlabel="layer", ylabel=ylabel)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    if percent:
        mark_percent(ax.yaxis)
    ax.grid(axis="y", alpha=0.3)


def draw_boxes(ax: Axes, boxes: Sequence[dict[str, Any]], positions: Any, edge: str, face: str) -> None:
    """Draw box plots from their statistics, as `matplotlib.cbook.boxplot_stats` names them."""
    line = {"color": edge}
    ax.bxp(
        boxes, positions=positions, showfliers=False, widths=0.55, patch_artist=True, manage_ticks=False,
        boxprops={"facecolor": face, "edgecolor": edge}, medianprops={**line, "linewidth": 2}, whiskerprops=line, capprops=line,
    )  # fmt: skip


def quantile_box(quantiles: np.ndarray) -> dict[str, float]:
    """The statistics of a box from the 5%, 25%, 50%, 75% and 95% quantiles."""
    return {name: float(value) for name, value in zip(("whislo", "q1", "med", "q3", "whishi"), quantiles, strict=True)}


def draw_over_layers(groups: Mapping[str, xr.DataArray], label: str, ax: Axes | None = None, *, percent: bool = True) -> Axes:
    """Draw any quantity over the layers: one line per group, and one dot per head where there are heads.

    Parameters
    ----------
    groups : mapping of str to xarray.DataArray
        Values over (layer) or (layer, head) by the name of their group; a line shows the mean over heads.
    label : str
        Label of the vertical axis.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.
    percent : bool
        Whether values are shares, labeled in percent.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> null_mass = xr.DataArray([[0.1, 0.3], [0.2, 0.4]], {"layer": [1, 2]}, ("layer", "head"))
    >>> draw_over_layers({"null mass": null_mass}, "share of a row").get_xlabel()
    'layer'
    """
    if isinstance(groups, xr.Dataset) or not isinstance(groups, Mapping):
        raise InputError(
            "expected a mapping of names to arrays over (layer) or (layer, head), which draw_over_layers draws, got a "
            f"{type(groups).__name__}; pass some of its variables: {{'null mass': result.null_mass}}."
        )
    ax = axes_or_new(ax, 6, 4)
    for number, (name, group) in enumerate(groups.items()):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        means = group.mean("head") if "head" in group.dims else group
        if not np.isfinite(means).any():
            continue
        if "head" in group.dims:
            draw_head_dots(ax, group["layer"].values, group, color)
        ax.plot(
            means["layer"],
            means,
            linestyle=LINE_STYLES[number % len(LINE_STYLES)],
            color=color,
            marker=marker,
            markersize=5,
            label=name,
        )
    finish_layers(ax, label, percent)
    if len(groups) > 1:  # above, since curves may be anywhere
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def draw_head_dots(ax: Axes, positions: np.ndarray, values: xr.DataArray, color: str, marker: str = "o") -> None:
    """Draw one dot per head at the position of its layer."""
    heads = values.transpose("layer", "head").values
    repeated = np.repeat(positions[:, None], heads.shape[1], 1)
    ax.scatter(repeated, heads, s=12, alpha=0.4, color=color, marker=marker, linewidths=0)
