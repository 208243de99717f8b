"""Hidden Token Attribution over a corpus: Figures 3, 4, 18 and 40 to 43."""

from collections.abc import Callable

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Claim, Quoted, Shape, falls, listed
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.recipe import Recipe, whole

WOBBLE = 0.01
ROUNDED = 0.005
"""What is less is 0 % in a figure."""
FAR = 11
"""Neighbors from here on are one group of Figure 4a."""
MEDIANS = {1: 0.306, 6: 0.144, 12: 0.107}
STRANGERS = {6: 0.18, 11: 0.30, 12: 0.30}


def attributed_caption(part: str) -> Callable[[Study], str]:
    """Model, data and directions."""
    papers = "whole Jacobians of the first 4,000" if part == "MNLI" else "whole Jacobians of all examples"
    return lambda study: (
        f"{study.model_name}; {study.scale.sentence(part, 'attributed')}, {int(study.attribution(part).tokens[0]):,} tokens; "
        f"{study.scale.directions[part]} random directions per token (the paper: {papers})."
    )


def _medians(study: Study, part: str = "MRPC") -> np.ndarray:
    return study.attribution(part).self_contribution_quantiles.sel(quantile=0.5).values


def _strangers(study: Study, part: str = "MRPC") -> np.ndarray:
    return study.attribution(part).not_own_main.values


def _none_early(part: str) -> Shape:
    """As many of its layers as 3 are of 12."""

    def holds(study: Study) -> tuple[bool, str]:
        certain = study.attribution(part).certainly_not_own_main.values[: max(1, study.layers // 4)]
        return bool(certain.max() < ROUNDED), f"{listed(certain)} beyond the error of directions"

    return Shape("in the first quarter of the layers every token is its own main contributor", holds)


def _ever_more(part: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        shares = _strangers(study, part)
        return bool((np.diff(shares) >= -WOBBLE).all()), listed(shares)

    return Shape("the deeper the layer, the more tokens are not their own main contributor", holds)


def _more_than_is_lost(study: Study) -> tuple[bool | None, str]:
    """§5.2, on the same tokens: tokens stay identifiable although others have contributed more."""
    if study.scale.attributed["MRPC"] != study.scale.identified["MRPC"]:
        return None, "attributed and identified on other examples"
    lost = 1 - study.identifiability().rate.sel(probe="linear cosine").values
    shares = _strangers(study)
    return bool((shares >= lost).all()), f"{listed(shares)} against {listed(lost)}"


def _more_is_left(study: Study) -> tuple[bool, str]:
    gap = (_medians(study, "CoLA") - _medians(study)).mean()
    return bool(gap > 0), f"{100 * gap:+.1f} points on average"


def _more_strangers(study: Study) -> tuple[bool, str]:
    gap = (_strangers(study, "CoLA") - _strangers(study)).mean()
    return bool(gap > 0), f"{100 * gap:+.1f} points on average"


def _as_in_mrpc(values: Callable[[Study, str], np.ndarray]) -> Callable[[Study], tuple[bool, str]]:
    def holds(study: Study) -> tuple[bool, str]:
        gap = np.abs(values(study, "MNLI") - values(study, "MRPC")).max()
        return bool(gap < 0.05), f"{100 * gap:.1f} points at most"

    return holds


def _peaks(part: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        groups = study.attribution(part).by_neighbors
        first, last = (int(groups.isel(group=place).argmax("layer")) + 1 for place in (0, -1))
        told = f"nearest neighbors most in layer {first}, farthest in layer {last}"
        return first <= study.layers / 2 < last, told

    return holds


def _nearest_most(part: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        shares = study.attribution(part).by_distance
        nearest = np.abs(shares["distance"].values[shares.argmax("distance").values])
        return bool((nearest == 1).all()), f"largest at distance {' '.join(map(str, nearest))} by layer"

    return holds


def _far_share(study: Study, part: str) -> np.ndarray:
    shares = study.attribution(part).by_distance
    return shares.where(abs(shares["distance"]) >= FAR).sum("distance").values


def _far_grows(part: str) -> Shape:
    def holds(study: Study) -> tuple[bool, str]:
        first, middle, last = (
            float(_far_share(study, part)[layer - 1]) for layer in (1, max(1, study.layers // 2), study.layers)
        )
        return first < middle < last, f"{listed([first, middle, last])} in the first, the middle and the last layer"

    return Shape("what comes from 11 tokens or farther grows with depth", holds)


def _less_from_far(study: Study) -> tuple[bool, str]:
    cola, mrpc = (float(_far_share(study, part)[-1]) for part in ("CoLA", "MRPC"))
    return cola < mrpc, f"{listed([cola, mrpc])} in the last layer of CoLA and MRPC"


def _separator_neighbors(study: Study) -> tuple[bool, str]:
    shares = study.attribution().cls_from_separator.isel(layer=-1)
    order = shares["distance"].values[np.argsort(-np.nan_to_num(shares.values, nan=-1.0))][:3]
    return {-1, 1} <= {int(each) for each in order}, f"largest at {' '.join(str(int(each)) for each in order)} from [SEP]"


def _second_gives_more(study: Study) -> tuple[bool, str]:
    shares = study.attribution().cls_from_separator.isel(layer=-1)
    first, second = (float(shares.where(side).sum()) for side in (shares["distance"] < 0, shares["distance"] > 0))
    return second > first, f"{100 * first:.1f} % from the first text, {100 * second:.1f} % from the second"


def _from_the_middle(study: Study) -> tuple[bool, str]:
    """Where the first text of a pair ends, at about position 30 of MRPC: a window of 20 positions that gives most."""
    shares = np.nan_to_num(study.attribution().cls_by_position.isel(layer=-1).values[1:])
    start = int(np.convolve(shares, np.ones(20), "valid").argmax()) + 1
    return start <= 30 <= start + 19, f"the 20 positions that give most are {start} to {start + 19}"


def _self_figures(number: str, part: str, claims: tuple[Claim, ...] = ()) -> Recipe:
    draw = lambda study: whole(figures.draw_self_contribution_quantiles(study.attribution(part)))  # noqa: E731
    shapes = (
        Shape("self-contribution falls with depth", lambda study: falls(_medians(study, part), WOBBLE)),
        _none_early(part),
        _ever_more(part),
    )
    return Recipe(number, f"What is left of tokens, {part}", (part,), draw, attributed_caption(part), (*shapes, *claims))


def _neighbor_figures(number: str, part: str, *more: Claim) -> tuple[Recipe, Recipe]:
    groups = lambda study: whole(figures.draw_contribution_by_neighbors(study.attribution(part)))  # noqa: E731
    distances = lambda study: whole(figures.draw_contribution_by_distance(study.attribution(part)))  # noqa: E731
    near = (
        Shape("the nearest neighbors contribute most in the first half of the layers, the farthest in the second", _peaks(part)),
    )
    peak = (Shape("in every layer the nearest neighbors contribute most", _nearest_most(part)), _far_grows(part), *more)
    return (
        Recipe(f"{number}a", f"Contribution by neighborhood, {part}", (part,), groups, attributed_caption(part), near),
        Recipe(f"{number}b", f"Contribution by distance, {part}", (part,), distances, attributed_caption(part), peak),
    )


def _at(values: Callable[[Study], np.ndarray], study: Study, layer: int) -> float | str:
    return float(values(study)[layer - 1]) if layer <= study.layers else f"{study.layers} layers"


def _median_quoted(layer: int, value: float) -> Quoted:
    return Quoted(f"median self-contribution in layer {layer}: {value:.1%}", value, 0.015,
                  lambda study: _at(_medians, study, layer))  # fmt: skip


def _strangers_quoted(layer: int, value: float) -> Quoted:
    return Quoted(f"not their own main contributor in layer {layer}: {value:.0%}", value, 0.02,
                  lambda study: _at(_strangers, study, layer))  # fmt: skip


QUOTED = (
    *(_median_quoted(layer, value) for layer, value in MEDIANS.items()),
    *(_strangers_quoted(layer, value) for layer, value in STRANGERS.items()),
    Shape("in every layer at least as many tokens are not their own main contributor as are not identified", _more_than_is_lost),
)

ATTRIBUTION_RECIPES = (
    _self_figures("3", "MRPC", QUOTED),
    *_neighbor_figures("4", "MRPC"),
    Recipe("18a", "What others give to [CLS], by position", ("MRPC",),
           lambda study: whole(figures.draw_first_token(study.attribution())), attributed_caption("MRPC"),
           (Shape("most comes from around position 30", _from_the_middle),)),
    Recipe("18b", "What others give to [CLS], around the first [SEP]", ("MRPC",),
           lambda study: whole(figures.draw_first_token(study.attribution(), "separator")), attributed_caption("MRPC"),
           (Shape("most comes from just before and just behind [SEP]", _separator_neighbors),
            Shape("the second text gives more than the first", _second_gives_more)), needs_separator=True),
    _self_figures("40", "CoLA", (Shape("a little more is left of tokens than in MRPC", _more_is_left),
                                 Shape("a little more are not their own main contributor than in MRPC", _more_strangers))),
    *_neighbor_figures("41", "CoLA", Shape("less comes from 11 tokens or farther than in MRPC", _less_from_far)),
    _self_figures("42", "MNLI", (
        Shape("as much is left of tokens as in MRPC, to 5 points", _as_in_mrpc(_medians)),
        Shape("as many are not their own main contributor as in MRPC, to 5 points", _as_in_mrpc(_strangers)))),
    *_neighbor_figures("43", "MNLI"),
)  # fmt: skip
