"""Shares as percentages along an axis."""

from matplotlib import ticker
from matplotlib.axis import Axis


def mark_percent(axis: Axis) -> None:
    """Label the marks of an axis in percent, with as many digits as each needs: 2.5% is not 2%."""
    axis.set_major_formatter(ticker.FuncFormatter(lambda share, _: f"{round(100 * share, 6) + 0.0:g}%"))
