"""Does attention say where a head's output comes from (Pascual et al.), and what depends on a value?"""

from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import rankdata

from identiformer import figures
from identiformer.measures import token_attribution, value_zeroing
from identiformer.paper.claims import Shape
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.recipe import Recipe, whole
from identiformer.texts import Example

HEAD_DIRECTIONS = 4
CLEARLY_FALLS = -0.5
"""Of a rank correlation with depth, below which a curve is said to fall."""
AGREEMENTS = {"raw attention": "raw_agreement", "effective attention": "effective_agreement"}


def _caption(study: Study, more: str) -> str:
    return f"{study.model_name}; the first {study.scale.compared} pairs of MRPC{more}."


def _heads(study: Study) -> list[xr.Dataset]:
    def of(text: Example) -> xr.Dataset:
        return token_attribution(study.model, text.text, text.pair, directions=HEAD_DIRECTIONS, heads=True, truncate=True)

    return [study.kept(f"heads_{number}", lambda text=text: of(text)) for number, text in enumerate(study.compared_pairs)]


def _zeroed(study: Study, special: bool) -> list[xr.Dataset]:
    def of(text: Example) -> xr.Dataset:
        return value_zeroing(study.model, text.text, text.pair, special=special, truncate=True)

    name = "zeroed" if special else "zeroed_words"
    return [study.kept(f"{name}_{number}", lambda text=text: of(text)) for number, text in enumerate(study.compared_pairs)]


def _agreement(results: list[xr.Dataset], name: str) -> xr.DataArray:
    """The mean over targets, then over texts."""
    return xr.concat([one[AGREEMENTS[name]].mean("target") for one in results], "text").mean("text")


def _draw_heads(study: Study) -> Figure:
    curves = {name: _agreement(_heads(study), name) for name in AGREEMENTS}
    return whole(figures.draw_over_layers(curves, "correlation with the head's attribution", percent=False))


def _draw_zeroed(study: Study) -> Figure:
    curves = {
        f"{name.removesuffix(' attention')}, {'all sources' if special else 'words alone'}": _agreement(
            _zeroed(study, special), name
        )
        for special in (True, False)
        for name in AGREEMENTS
    }
    return whole(figures.draw_over_layers(curves, "correlation with the effect of zeroing", percent=False))


def _parts_with_depth(study: Study) -> tuple[bool | None, str]:
    raw = _agreement(_heads(study), "raw attention").mean("head").values
    by_layer = f"correlation by layer {' '.join(f'{each:.2f}' for each in raw)}"
    if len(raw) < 3:
        return None, by_layer
    trend = float(np.corrcoef(np.arange(len(raw)), rankdata(raw))[0, 1])
    return trend < CLEARLY_FALLS, f"{by_layer}: rank correlation with depth {trend:.2f}"


def _effective_predicts(special: bool) -> Callable[[Study], tuple[bool, str]]:
    def holds(study: Study) -> tuple[bool, str]:
        raw, effective = (float(_agreement(_zeroed(study, special), name).mean()) for name in AGREEMENTS)
        return effective > raw, f"correlation with the effect: {raw:.3f} of raw, {effective:.3f} of effective attention"

    return holds


AGREEMENT_RECIPES = (
    Recipe("B4", "Attribution of what heads give, and their attention", ("MRPC",),
           _draw_heads, lambda study: _caption(study, f"; {HEAD_DIRECTIONS} random directions per token"),
           (Shape("the deeper a head, the less its attention says of where its output comes from (Pascual et al.)",
                  _parts_with_depth),)),
    Recipe("B5", "Attention, and what zeroing a value changes", ("MRPC",),
           _draw_zeroed, lambda study: _caption(study, ""),
           (Shape("effective attention predicts the effect of zeroing a value better than raw",
                  _effective_predicts(special=True)),
            Shape("so it does among words, without [CLS] and [SEP]", _effective_predicts(special=False)))),
)  # fmt: skip
