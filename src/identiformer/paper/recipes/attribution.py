"""Hidden Token Attribution over a corpus, and by part of speech: Figures 3, 4, 18, 26 to 37 and 40 to 43."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.stats import rankdata

from identiformer import figures
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.declarations import Comparison, Outcome, claim, decreases, percentages, recipe, separator

SELF, NEIGHBORHOOD, DISTANCE = (
    dict(zip(numbers, ("MRPC", "CoLA", "MNLI"), strict=True))
    for numbers in (("3", "40", "42"), ("4a", "41a", "43a"), ("4b", "41b", "43b"))
)
SLACK = 0.01
ROUNDED = 0.005
"""A smaller share is 0 % in a figure."""
SIMILAR = 0.05
FAR = 11
"""The distance from which on Figure 4a counts neighbors as one group."""
WINDOW = 20


def attribution_caption(study: Study, dataset: str) -> str:
    """Describe the data and the random directions."""
    paper = "full Jacobians of the first 4,000" if dataset == "MNLI" else "full Jacobians of all examples"
    tokens = int(study.attribution(dataset).tokens[0])
    return (
        f"{study.model_name}; {study.scale.examples(dataset, study.scale.attributed)}, {tokens:,} tokens; "
        f"{study.scale.directions[dataset]} random directions per token (paper: {paper})."
    )


def _medians(study: Study, dataset: str = "MRPC") -> np.ndarray:
    return study.attribution(dataset).self_contribution_quantiles.sel(quantile=0.5).values


def _not_own_main(study: Study, dataset: str = "MRPC") -> np.ndarray:
    return study.attribution(dataset).not_own_main.values


def _in_layer(values: np.ndarray, layer: int) -> float | str:
    return float(values[layer - 1]) if layer <= len(values) else f"{len(values)} layers"


@recipe(SELF, "Self-contribution, {}", data="{}", caption=attribution_caption)
def draw_self_contribution(study: Study, dataset: str) -> Axes:
    return figures.draw_self_contribution_quantiles(study.attribution(dataset))


@claim(SELF, "self-contribution falls with depth")
def self_contribution_falls(study: Study, dataset: str) -> Outcome:
    return decreases(_medians(study, dataset), SLACK)


@claim(SELF, "in the first quarter of the layers every token is its own main contributor")
def own_main_in_early_layers(study: Study, dataset: str) -> Outcome:
    shares = study.attribution(dataset).certainly_not_own_main.values[: max(1, study.layers // 4)]
    return bool(shares.max() < ROUNDED), f"{percentages(shares)} beyond the error of random directions"


@claim(SELF, "the share of tokens that are not their own main contributor grows with depth")
def not_own_main_grows(study: Study, dataset: str) -> Outcome:
    shares = _not_own_main(study, dataset)
    return bool((np.diff(shares) >= -SLACK).all()), percentages(shares)


@claim({"3": [(1, 0.306), (6, 0.144), (12, 0.107)]}, "median self-contribution in layer {}: {:.1%}")
def median_in_layer(study: Study, layer: int, quoted: float) -> Comparison:
    return Comparison(_in_layer(_medians(study), layer), quoted, tolerance=0.015)


@claim({"3": [(6, 0.18), (11, 0.3), (12, 0.3)]}, "tokens that are not their own main contributor in layer {}: {:.0%}")
def not_own_main_in_layer(study: Study, layer: int, quoted: float) -> Comparison:
    return Comparison(_in_layer(_not_own_main(study), layer), quoted, tolerance=0.02)


@claim("3", "in every layer at least as many tokens are not their own main contributor as are not recovered")
def recovered_although_mixed(study: Study) -> Outcome:
    """§5.2, on the same tokens: tokens stay identifiable although other tokens contribute more."""
    if study.scale.attributed["MRPC"] != study.scale.identified["MRPC"]:
        return None, "attribution and identifiability use different examples"
    not_recovered = 1 - study.identifiability().rate.sel(probe="linear cosine").values
    shares = _not_own_main(study)
    return bool((shares >= not_recovered).all()), f"{percentages(shares)} against {percentages(not_recovered)}"


SHARES = {"self-contribution": _medians, "the share of tokens that are not their own main contributor": _not_own_main}


@claim({"40": list(SHARES)}, "{} is a little higher than in MRPC")
def is_higher_in_cola(study: Study, name: str) -> Outcome:
    gap = (SHARES[name](study, "CoLA") - SHARES[name](study)).mean()
    return bool(gap > 0), f"{100 * gap:+.1f} points on average"


@claim({"42": list(SHARES)}, "{} is as high as in MRPC, within 5 points")
def is_similar_in_mnli(study: Study, name: str) -> Outcome:
    gap = np.abs(SHARES[name](study, "MNLI") - SHARES[name](study)).max()
    return bool(gap < SIMILAR), f"{100 * gap:.1f} points at most"


@recipe(NEIGHBORHOOD, "Contribution by neighborhood, {}", data="{}", caption=attribution_caption)
def draw_neighborhoods(study: Study, dataset: str) -> Axes:
    return figures.draw_contribution_by_neighbors(study.attribution(dataset))


@claim(NEIGHBORHOOD, "the nearest neighbors contribute most in the first half of the layers, the farthest in the second")
def nearest_peak_first(study: Study, dataset: str) -> Outcome:
    groups = study.attribution(dataset).by_neighbors
    nearest, farthest = (int(groups.isel(group=group).argmax("layer")) + 1 for group in (0, -1))
    evidence = f"nearest neighbors most in layer {nearest}, farthest in layer {farthest}"
    return nearest <= study.layers / 2 < farthest, evidence


@recipe(DISTANCE, "Contribution by distance, {}", data="{}", caption=attribution_caption)
def draw_distances(study: Study, dataset: str) -> Axes:
    return figures.draw_contribution_by_distance(study.attribution(dataset))


@claim(DISTANCE, "in every layer the nearest neighbors contribute most")
def nearest_contribute_most(study: Study, dataset: str) -> Outcome:
    shares = study.attribution(dataset).by_distance
    largest = np.abs(shares["distance"].values[shares.argmax("distance").values])
    return bool((largest == 1).all()), f"largest at distance {' '.join(map(str, largest))} by layer"


def _from_far(study: Study, dataset: str) -> np.ndarray:
    shares = study.attribution(dataset).by_distance
    return shares.where(abs(shares["distance"]) >= FAR).sum("distance").values


@claim(DISTANCE, f"the contribution of tokens at distance {FAR} or more grows with depth")
def far_contribution_grows(study: Study, dataset: str) -> Outcome:
    layers = (1, study.middle_layer, study.layers)
    first, middle, last = (float(_from_far(study, dataset)[layer - 1]) for layer in layers)
    return first < middle < last, f"{percentages([first, middle, last])} in the first, middle and last layer"


@claim("41b", f"tokens at distance {FAR} or more contribute less than in MRPC")
def far_contribution_is_lower(study: Study) -> Outcome:
    cola, mrpc = (float(_from_far(study, dataset)[-1]) for dataset in ("CoLA", "MRPC"))
    return cola < mrpc, f"{percentages([cola, mrpc])} in the last layer of CoLA and MRPC"


@recipe("18a", "Contributions to [CLS], by position", data="MRPC", caption=attribution_caption)
def draw_cls_by_position(study: Study) -> Axes:
    return figures.draw_first_token(study.attribution())


@claim("18a", "positions around 30 contribute most")
def border_contributes_most(study: Study) -> Outcome:
    """Where the first text of an MRPC pair ends, by the window of positions that contributes most."""
    shares = np.nan_to_num(study.attribution().cls_by_position.isel(layer=-1).values[1:])
    start = int(np.convolve(shares, np.ones(WINDOW), "valid").argmax()) + 1
    end = start + WINDOW - 1
    return start <= 30 <= end, f"the {WINDOW} positions that contribute most are {start} to {end}"


@recipe("18b", "Contributions to [CLS], around the first [SEP]", data="MRPC", caption=attribution_caption, requires=(separator,))
def draw_cls_by_distance(study: Study) -> Axes:
    return figures.draw_first_token(study.attribution(), "separator")


@claim("18b", "the tokens just before and just after [SEP] contribute most")
def separator_neighbors_contribute_most(study: Study) -> Outcome:
    shares = study.attribution().cls_from_separator.isel(layer=-1)
    order = shares["distance"].values[np.argsort(-np.nan_to_num(shares.values, nan=-1.0))][:3]
    return {-1, 1} <= set(order.tolist()), f"largest at {' '.join(map(str, order.tolist()))} from [SEP]"


@claim("18b", "the second text contributes more than the first")
def second_text_contributes_more(study: Study) -> Outcome:
    shares = study.attribution().cls_from_separator.isel(layer=-1)
    first, second = (float(shares.where(side).sum()) for side in (shares["distance"] < 0, shares["distance"] > 0))
    return second > first, f"{100 * first:.1f} % from the first text, {100 * second:.1f} % from the second"


LAYERS = {str(25 + layer): layer for layer in range(1, 13)}
"""The layer of each figure."""
SAME_ORDER = 0.9
CONTENT = ("NN", "NNS", "NNP", "VB", "VBN", "VBD", "VBP", "JJ", "JJS", "RBR", "RBS")
FUNCTION = ("WP", "WDT", "IN", "CC", "SYM", "PRP$", "POS", "DT")
"""Content words and function words, as listed in the caption of Figure 29."""


@recipe(
    LAYERS,
    "Self-contribution by part of speech, layer {}",
    data="MRPC",
    caption=attribution_caption,
    requires=(
        separator,
        lambda study, layer: f"is about layer {layer}, and this model has {study.layers}" if layer > study.layers else None,
        lambda study, _: f"needs tags of words: {study.why_no_tags}" if study.why_no_tags is not None else None,
    ),
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
