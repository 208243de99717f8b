"""What is left of tokens by part of speech, a figure a layer: Figures 26 to 37."""

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from identiformer import figures
from identiformer.paper.claims import Claim, Quoted, Shape
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.attribution import attributed_caption
from identiformer.paper.recipes.recipe import Recipe, whole

LAYERS, FIRST_FIGURE = range(1, 13), 26
SAME_ORDER = 0.9
CONTENT = ("NN", "NNS", "NNP", "VB", "VBN", "VBD", "VBP", "JJ", "JJS", "RBR", "RBS")
FUNCTION = ("WP", "WDT", "IN", "CC", "SYM", "PRP$", "POS", "DT")
"""Words with more and with less meaning of their own, as the caption of Figure 29 lists them."""


def _quantile(study: Study, layer: int, quantile: float = 0.5) -> xr.DataArray:
    return study.by_tag().self_contribution_quantiles.sel(layer=layer, quantile=quantile)


def _of(values: xr.DataArray, tags: tuple[str, ...]) -> float:
    """The mean over those of the tags that there are."""
    return float(values.sel(tag=[tag for tag in tags if tag in values["tag"]]).mean())


def _first_token_keeps_most(study: Study) -> tuple[bool, str]:
    medians = _quantile(study, 1)
    most = str(medians["tag"].values[np.nanargmax(medians.values)])
    own = float(medians.sel(tag="[CLS]"))
    return most == "[CLS]", f"most in {most}, {100 * float(medians.max()):.1f} %; [CLS] {100 * own:.1f} %"


def _separator_joins(study: Study) -> tuple[bool, str]:
    medians = _quantile(study, 2)
    order = [str(tag) for tag in medians["tag"].values[np.argsort(-np.nan_to_num(medians.values, nan=-1))]]
    return {"[CLS]", "[SEP]"} == set(order[:2]), f"most in {', '.join(order[:3])}"


def _less_than_before(layer: int) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        before, now = (100 * float(_quantile(study, each).mean()) for each in (layer - 1, layer))
        return now < before, f"{before:.1f} % in layer {layer - 1}, {now:.1f} % in layer {layer}, on average over kinds"

    return Shape("less is left than in the layer before", holds)


def _order_stays(layer: int) -> Shape:
    """By the rank correlation of the medians of all kinds."""

    def holds(study: Study) -> tuple[bool, str]:
        before, now = (_quantile(study, each).values for each in (layer - 1, layer))
        seen = np.isfinite(before) & np.isfinite(now)
        order = float(np.corrcoef(rankdata(before[seen]), rankdata(now[seen]))[0, 1])
        return order > SAME_ORDER, f"rank correlation {order:.2f} with layer {layer - 1}"

    return Shape("kinds stand in the order of the layer before", holds)


def _spread(study: Study, layer: int) -> xr.DataArray:
    return _quantile(study, layer, 0.75) - _quantile(study, layer, 0.25)


def _function_narrows(study: Study) -> tuple[bool, str]:
    before, now = (100 * _of(_spread(study, layer), FUNCTION) for layer in (4, 5))
    return now < before, f"between quartiles {before:.1f} points in layer 4, {now:.1f} in layer 5"


def _special_fall(study: Study) -> tuple[bool, str]:
    """Whether [CLS] and [SEP] lose more from layer 3 to layer 4 than content words do."""
    lost = _quantile(study, 3) - _quantile(study, 4)
    special, words = (100 * _of(lost, tags) for tags in (("[CLS]", "[SEP]"), CONTENT))
    return special > words, f"they lose {special:.1f} points, content words {words:.1f}"


def _content_keeps_more(layer: int):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        content, function = (100 * _of(_quantile(study, layer), tags) for tags in (CONTENT, FUNCTION))
        return content > function, f"{content:.1f} % of content words, {function:.1f} % of function words"

    return Shape("nouns, verbs, adjectives and adverbs keep more of themselves than function words", holds)


def _content_is_dispersed(study: Study) -> tuple[bool, str]:
    content, function = (100 * _of(_spread(study, 8), tags) for tags in (CONTENT, FUNCTION))
    return content > function, f"between quartiles {content:.1f} points of content words, {function:.1f} of function words"


def _separator_rises(study: Study) -> tuple[bool, str]:
    before, now = (100 * float(_quantile(study, layer).sel(tag="[SEP]")) for layer in (8, 9))
    return now > before, f"{before:.1f} % in layer 8, {now:.1f} % in layer 9"


CLAIMS: dict[int, tuple[Claim, ...]] = {
    1: (Shape("[CLS] keeps more of itself than any other", _first_token_keeps_most),
        Quoted("[CLS] keeps more than 40%", 0.40, 0.0, lambda study: float(_quantile(study, 1).sel(tag="[CLS]")), "above"),
        Quoted("the other kinds keep less than 35%", 0.35, 0.0,
               lambda study: float(_quantile(study, 1).drop_sel(tag="[CLS]").max()), "below")),
    2: (Shape("[SEP] keeps as much of itself as [CLS], more than the others", _separator_joins), _less_than_before(2)),
    3: (_less_than_before(3),),
    4: (Shape("[CLS] and [SEP] fall more than others", _special_fall), _content_keeps_more(4)),
    5: (Shape("function words differ less among each other than in layer 4", _function_narrows),),
    6: (_order_stays(6),),
    7: (_order_stays(7),),
    8: (Shape("words that keep more of themselves differ more among each other", _content_is_dispersed),),
    9: (Shape("[SEP] rises", _separator_rises),),
    10: (_order_stays(10),),
    11: (_order_stays(11),),
    12: (_content_keeps_more(12),),
}  # fmt: skip


def _figure(layer: int) -> Recipe:
    draw = lambda study: whole(figures.draw_self_contribution_by_tag(study.by_tag(), layer))  # noqa: E731
    title, number = f"What is left of tokens by part of speech, layer {layer}", str(FIRST_FIGURE - 1 + layer)
    return Recipe(
        number, title, ("MRPC",), draw, attributed_caption("MRPC"), CLAIMS.get(layer, ()), needs_separator=True, needs_tags=True,
        needs_layer=layer,
    )  # fmt: skip


TAG_RECIPES = tuple(_figure(layer) for layer in LAYERS)
