"""How far each weight of a row can lie elsewhere with the same output."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.naming import short_name

MOST_KEYS = 24  # token labels that stay legible on one axis
CERTAIN, REACHED, RAW, OTHER = "#c9d8e6", "#4c86b8", "#1a1a1a", "#c4540a"


def draw_intervals(result: xr.Dataset, query: int, kind: str | None = None, ax: Axes | None = None) -> Axes:
    """The weights of one row as points, the intervals in which they could lie as bars, another row with the same output beside.

    The keys shown are those that have, or could have, most. `kind` names the alternative to draw.
    """
    ax = ax or Figure(figsize=(8, 6), layout="constrained").subplots()
    row = result.sel(query=query)
    could = np.nan_to_num(np.fmax(row.raw.values, row.high_reached.values))
    keys = np.sort(np.argsort(-could, kind="stable")[:MOST_KEYS])
    shown = row.isel(key=keys)
    places = np.arange(len(keys))
    for low, high, color, height, label in (
        ("low", "high", CERTAIN, 0.8, "certain: never outside, with the same output"),
        ("low_reached", "high_reached", REACHED, 0.45, "reached: by other rows with the same output"),
    ):
        ax.barh(places, shown[high] - shown[low], left=shown[low], height=height, color=color, label=label)
    ax.plot(shown.raw, places, "o", color=RAW, markersize=5, clip_on=False, label="the model's own weight")
    if kind is not None:
        other = shown.alternatives.sel(alternative=kind)
        label = f"another row with the same output ({kind.replace('_', ' ')})"
        ax.plot(
            other,
            places,
            "D",
            color=OTHER,
            markersize=5.5,
            markerfacecolor="white",
            markeredgewidth=1.4,
            clip_on=False,
            label=label,
        )
    labels = [f"{token}  {key}" for token, key in zip(shown.key_token.values, shown["key"].values, strict=True)]
    ax.set_yticks(places, labels, fontsize=8, parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set_xlabel("attention weight")
    ax.set_ylabel("key: the token attended to, and its position")
    place = f"{short_name(result.attrs['model'])}, layer {int(result['layer'])}, head {int(result['head'])}"
    ax.set_title(f"{place}: attention of ‘{row.query_token.values}’ at {query}", fontsize=11, parse_math=False)
    ax.legend(fontsize=8, loc="lower right")
    return ax
