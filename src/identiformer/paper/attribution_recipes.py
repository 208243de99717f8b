"""Hidden Token Attribution: Figures 3, 4, 18 to 25 and 40 to 43."""

from collections.abc import Callable

import numpy as np

from identiformer import figures
from identiformer.measures.token_attribution import PROBES
from identiformer.paper.claims import Claim, Quoted, Shape, falls, listed
from identiformer.paper.recipe import Recipe, whole
from identiformer.paper.study import Study

WOBBLE = 0.01
WORDS = {"19": "[CLS]", "20": "he", "21": "said", "22": "fit", "23": "long", "24": "strategy", "25": "[SEP]"}
"""Whose vectors the paper follows in the first pair of MRPC."""
FIRST_TAG_FIGURE = 26
MEDIANS = {1: 0.306, 6: 0.144, 12: 0.107}
STRANGERS = {6: 0.18, 11: 0.30, 12: 0.30}


def _caption(part: str):  # noqa: ANN202
    return lambda study: (
        f"{study.model.name}; {study.scale.sentence(part, 'attributed')}, "
        f"{int(study.attribution(part).tokens[0])} tokens; {study.scale.probes[part]} probes a token."
    )


def _medians(study: Study, part: str = "MRPC") -> np.ndarray:
    return study.attribution(part).self_contribution_quantiles.sel(quantile=0.5).values


def _strangers(study: Study, part: str = "MRPC") -> np.ndarray:
    return study.attribution(part).not_own_main.values


def _rises_from_nothing(part: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        shares = _strangers(study, part)
        return bool(shares[0] == 0 and (np.diff(shares) >= -WOBBLE).all()), listed(shares)

    return holds


def _more_than_is_lost(study: Study) -> tuple[bool, str]:
    """§5.2, on the same tokens: tokens stay identifiable although others have contributed more."""
    lost = 1 - study.identifiability().rate.sel(probe="linear cosine").values
    shares = _strangers(study)
    return bool((shares >= lost).all()), f"{listed(shares)} against {listed(lost)}"


def _peaks(part: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        groups = study.attribution(part).by_neighbours
        first, last = (int(groups.isel(group=place).argmax("layer")) + 1 for place in (0, -1))
        return first < last, f"nearest neighbours most in layer {first}, farthest in layer {last}"

    return holds


def _nearest_most(part: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        shares = study.attribution(part).by_distance
        nearest = np.abs(shares["distance"].values[shares.argmax("distance").values])
        return bool((nearest == 1).all()), f"largest at distance {' '.join(map(str, nearest))} by layer"

    return holds


def _separator_neighbours(study: Study) -> tuple[bool, str]:
    shares = study.attribution().cls_from_separator.isel(layer=-1)
    order = shares["distance"].values[np.argsort(-np.nan_to_num(shares.values, nan=-1.0))][:3]
    return {-1, 1} <= {int(each) for each in order}, f"largest at {' '.join(str(int(each)) for each in order)} from [SEP]"


def _pair(study: Study, word: str) -> str:
    return f"{study.model.name}; the first pair of MRPC, the hidden vectors of “{word}”; {PROBES} probes a token."


def _draw_word(word: str):  # noqa: ANN202
    def draw(study: Study):  # noqa: ANN202
        result = study.example()
        tokens = list(result["target_token"].values)
        return whole(figures.draw_token_attribution(result, tokens.index(word) if word in tokens else 0))

    return draw


def _self_figures(number: str, part: str, claims: tuple[Claim, ...] = ()) -> Recipe:
    draw = lambda study: whole(figures.draw_self_contribution_quantiles(study.attribution(part)))  # noqa: E731
    shapes = (
        Shape("self-contribution falls with depth", lambda study: falls(_medians(study, part), WOBBLE)),
        Shape("tokens that are not their own main contributor: none in layer 1, then ever more", _rises_from_nothing(part)),
    )
    return Recipe(number, f"What is left of tokens, {part}", (part,), draw, _caption(part), (*shapes, *claims))


def _neighbour_figures(number: str, part: str) -> tuple[Recipe, Recipe]:
    groups = lambda study: whole(figures.draw_contribution_by_neighbours(study.attribution(part)))  # noqa: E731
    distances = lambda study: whole(figures.draw_contribution_by_distance(study.attribution(part)))  # noqa: E731
    near = (Shape("near neighbours contribute early, far ones late", _peaks(part)),)
    peak = (Shape("in every layer the nearest neighbours contribute most", _nearest_most(part)),)
    return (
        Recipe(f"{number}a", f"Contribution by neighbourhood, {part}", (part,), groups, _caption(part), near),
        Recipe(f"{number}b", f"Contribution by distance, {part}", (part,), distances, _caption(part), peak),
    )


def _tag_figure(layer: int) -> Recipe:
    draw = lambda study: whole(figures.draw_self_contribution_by_tag(study.by_tag(), layer))  # noqa: E731
    title = f"What is left of tokens by part of speech, layer {layer}"
    claims = (Shape("[CLS] keeps more of itself than any other", _first_token_keeps_most),) if layer == 1 else ()
    return Recipe(
        str(FIRST_TAG_FIGURE - 1 + layer), title, ("MRPC",), draw, _caption("MRPC"), claims, needs_tags=True, needs_layer=layer
    )


def _first_token_keeps_most(study: Study) -> tuple[bool, str]:
    medians = study.by_tag().self_contribution_quantiles.sel(quantile=0.5).isel(layer=0)
    most = str(medians["tag"].values[np.nanargmax(medians.values)])
    return (
        most == "[CLS]",
        f"most in {most}, {100 * float(medians.max()):.1f} %; [CLS] {100 * float(medians.sel(tag='[CLS]')):.1f} %",
    )


def _at(values: Callable[[Study], np.ndarray], study: Study, layer: int) -> float | None:
    return float(values(study)[layer - 1]) if layer <= study.layers else None


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
    *_neighbour_figures("4", "MRPC"),
    Recipe("18a", "What others give to [CLS], by position", ("MRPC",),
           lambda study: whole(figures.draw_first_token(study.attribution())), _caption("MRPC")),
    Recipe("18b", "What others give to [CLS], around the first [SEP]", ("MRPC",),
           lambda study: whole(figures.draw_first_token(study.attribution(), "separator")), _caption("MRPC"),
           (Shape("most comes from just before and just behind [SEP]", _separator_neighbours),), needs_separator=True),
    *(Recipe(number, f"Where “{word}” comes from", ("MRPC",), _draw_word(word), lambda study, word=word: _pair(study, word))
      for number, word in WORDS.items()),
    *(_tag_figure(layer) for layer in range(1, 13)),
    _self_figures("40", "CoLA"),
    *_neighbour_figures("41", "CoLA"),
    _self_figures("42", "MNLI"),
    *_neighbour_figures("43", "MNLI"),
)  # fmt: skip
