"""Self-contribution by part of speech, one figure per layer: Figures 26 to 37."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.stats import rankdata

from identiformer import figures
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.attribution import attribution_caption
from identiformer.paper.recipes.declarations import Comparison, Outcome, claim, recipe, separator

LAYERS = {str(25 + layer): layer for layer in range(1, 13)}
"""The layer of each figure."""
SAME_ORDER = 0.9
CONTENT = ("NN", "NNS", "NNP", "VB", "VBN", "VBD", "VBP", "JJ", "JJS", "RBR", "RBS")
FUNCTION = ("WP", "WDT", "IN", "CC", "SYM", "PRP$", "POS", "DT")
"""Content words and function words, as listed in the caption of Figure 29."""


def _layer(study: Study, layer: int) -> str | None:
    """Require the model to have the layer."""
    return f"is about layer {layer}, and this model has {study.layers}" if layer > study.layers else None


def _tags(study: Study, _: int) -> str | None:
    """Require tags."""
    return f"needs tags of words: {study.why_no_tags}" if study.why_no_tags is not None else None


@recipe(
    LAYERS,
    "Self-contribution by part of speech, layer {}",
    data="MRPC",
    caption=attribution_caption,
    requires=(separator, _layer, _tags),
)
def draw_by_tag(study: Study, layer: int) -> Axes:
    return figures.draw_self_contribution_by_tag(study.by_tag(), layer)


def _quantile(study: Study, layer: int, quantile: float = 0.5) -> xr.DataArray:
    return study.by_tag().self_contribution_quantiles.sel(layer=layer, quantile=quantile)


def _interquartile_range(study: Study, layer: int) -> xr.DataArray:
    return _quantile(study, layer, 0.75) - _quantile(study, layer, 0.25)


def _percent(values: xr.DataArray, tags: tuple[str, ...]) -> float:
    """The mean over those of the tags that occur."""
    return 100 * float(values.sel(tag=[tag for tag in tags if tag in values["tag"]]).mean())


@claim("26", "[CLS] has the largest self-contribution")
def cls_is_largest(study: Study) -> Outcome:
    medians = _quantile(study, 1)
    largest = str(medians["tag"].values[np.nanargmax(medians.values)])
    cls = float(medians.sel(tag="[CLS]"))
    return largest == "[CLS]", f"largest for {largest}, {100 * float(medians.max()):.1f} %; [CLS] {100 * cls:.1f} %"


@claim("26", "the self-contribution of [CLS] is more than 40%")
def cls_in_first_layer(study: Study) -> Comparison:
    return Comparison(float(_quantile(study, 1).sel(tag="[CLS]")), 0.40, sense="above")


@claim("26", "the self-contribution of every other kind is less than 35%")
def others_in_first_layer(study: Study) -> Comparison:
    return Comparison(float(_quantile(study, 1).drop_sel(tag="[CLS]").max()), 0.35, sense="below")


@claim("27", "[CLS] and [SEP] have the largest self-contributions")
def special_tokens_are_largest(study: Study) -> Outcome:
    medians = _quantile(study, 2)
    order = [str(tag) for tag in medians["tag"].values[np.argsort(-np.nan_to_num(medians.values, nan=-1))]]
    return {"[CLS]", "[SEP]"} == set(order[:2]), f"largest for {', '.join(order[:3])}"


@claim({"27": 2, "28": 3}, "self-contribution is lower than in the previous layer")
def lower_than_before(study: Study, layer: int) -> Outcome:
    before, now = (100 * float(_quantile(study, number).mean()) for number in (layer - 1, layer))
    return now < before, f"{before:.1f} % in layer {layer - 1}, {now:.1f} % in layer {layer}, on average over kinds"


@claim("29", "[CLS] and [SEP] lose more self-contribution than other tokens")
def special_tokens_fall(study: Study) -> Outcome:
    """From layer 3 to layer 4, compared with content words."""
    loss = _quantile(study, 3) - _quantile(study, 4)
    special, words = (_percent(loss, tags) for tags in (("[CLS]", "[SEP]"), CONTENT))
    return special > words, f"they lose {special:.1f} points, content words {words:.1f}"


@claim({"29": 4, "37": 12}, "nouns, verbs, adjectives and adverbs have larger self-contributions than function words")
def content_words_are_larger(study: Study, layer: int) -> Outcome:
    content, function = (_percent(_quantile(study, layer), tags) for tags in (CONTENT, FUNCTION))
    return content > function, f"{content:.1f} % for content words, {function:.1f} % for function words"


@claim("30", "self-contribution varies less among function words than in layer 4")
def function_words_vary_less(study: Study) -> Outcome:
    before, now = (_percent(_interquartile_range(study, layer), FUNCTION) for layer in (4, 5))
    return now < before, f"interquartile range {before:.1f} points in layer 4, {now:.1f} in layer 5"


@claim({"31": 6, "32": 7, "35": 10, "36": 11}, "kinds of tokens rank as in the previous layer")
def same_order(study: Study, layer: int) -> Outcome:
    """By the rank correlation of the medians of all kinds."""
    before, now = (_quantile(study, number).values for number in (layer - 1, layer))
    finite = np.isfinite(before) & np.isfinite(now)
    correlation = float(np.corrcoef(rankdata(before[finite]), rankdata(now[finite]))[0, 1])
    return correlation > SAME_ORDER, f"rank correlation {correlation:.2f} with layer {layer - 1}"


@claim("33", "self-contribution varies more among words where it is larger")
def content_words_vary_more(study: Study) -> Outcome:
    content, function = (_percent(_interquartile_range(study, 8), tags) for tags in (CONTENT, FUNCTION))
    return content > function, f"interquartile range {content:.1f} points for content words, {function:.1f} for function words"


@claim("34", "the self-contribution of [SEP] rises")
def separator_rises(study: Study) -> Outcome:
    before, now = (100 * float(_quantile(study, layer).sel(tag="[SEP]")) for layer in (8, 9))
    return now > before, f"{before:.1f} % in layer 8, {now:.1f} % in layer 9"
