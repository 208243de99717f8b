"""The certified share of attention, and the change of the model's output, as functions of the tolerance."""

from collections.abc import Sequence

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.errors import InputError
from identiformer.figures.style import COLORS, LINE_STYLES, MARKERS, mark_percent, set_title, short_name


def draw_tolerance(result: xr.Dataset, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Draw how much attention is certified, and how much alternatives change the model's output, for each tolerance.

    Parameters
    ----------
    result : xarray.Dataset
        Over (dtype, tolerance, quantile): `certified`, the share of attention that is certified; `change` of the model's output
        when alternatives of that tolerance are patched in; `rounding`, how far the unpatched output is from that of a more
        precise run. `quantile` holds 0.25, 0.5 and 0.75; the band is between the first and the last. Attributes: `model`, and
        `output`, what `change` measures.
    axes : sequence of two matplotlib.axes.Axes, optional
        Axes to draw on, for the share and for the change; a new figure by default.

    Returns
    -------
    sequence of matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> dims, shape = ("dtype", "tolerance", "quantile"), (1, 2, 3)
    >>> variables = {name: (dims, np.full(shape, 0.1)) for name in ("certified", "change", "rounding")}
    >>> coordinates = {"dtype": ["float32"], "tolerance": [1e-4, 1e-2], "quantile": [0.25, 0.5, 0.75]}
    >>> result = xr.Dataset(variables, coordinates, {"model": "minilm", "output": "1 - cos"})
    >>> [ax.get_ylabel() for ax in draw_tolerance(result)]
    ['certified share', 'output change (1 - cos)']
    """
    needed = {"certified", "change", "rounding", "dtype", "tolerance", "quantile"}
    if not isinstance(result, xr.Dataset) or not needed <= set(result.variables):
        got = getattr(result, "attrs", {}).get("measure")
        raise InputError(
            "expected certified, change and rounding over dtype, tolerance and quantile, which draw_tolerance draws, got "
            f"{f'a {type(result).__name__}' if got is None else f'one of {got}'}; make it as studies/tolerance.py does."
        )
    if axes is None:
        axes = list(Figure(figsize=(5, 5.4), layout="constrained").subplots(2, 1, sharex=True))
    share, change = axes
    for number, dtype in enumerate(result["dtype"].values.tolist()):
        curve = result.sel(dtype=dtype)
        style = {"color": COLORS[number], "linestyle": LINE_STYLES[number], "marker": MARKERS[number], "markersize": 5}
        for ax, name in ((share, "certified"), (change, "change")):
            low, middle, high = (curve[name].sel(quantile=quantile) for quantile in (0.25, 0.5, 0.75))
            ax.fill_between(curve["tolerance"], low, high, color=COLORS[number], alpha=0.2, linewidth=0)
            ax.plot(curve["tolerance"], middle, label=dtype, **style)
        rounding = float(curve.rounding.sel(quantile=0.5)[0])
        change.axhline(rounding, color=COLORS[number], linewidth=1.2, linestyle=":", label=f"rounding of {dtype}")
    share.set(ylim=(0, 1), ylabel="certified share")
    mark_percent(share.yaxis)
    share.legend(frameon=False, loc="lower left")
    lines = [line for line in change.lines if str(line.get_label()).startswith("rounding")]
    change.legend(handles=lines, frameon=False, loc="center left", bbox_to_anchor=(0, 0.62), fontsize=8)
    change.set(xscale="log", yscale="log", xlabel="tolerance  ε", ylabel=f"output change ({result.attrs['output']})")
    set_title(share, short_name(result.attrs["model"]))
    for ax in axes:
        ax.grid(alpha=0.3)
    return axes
