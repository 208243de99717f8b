"""Where the tokens of one pair come from, layer by layer: Figures 19 to 25."""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from identiformer import figures
from identiformer.measures.attribution.hidden_token import DIRECTIONS
from identiformer.paper.claims import Claim, Shape
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.recipe import Recipe, whole

FOREMOST = 3
"""A token is said to give most if it is among so many others."""


def _draw(word: str) -> Callable[[Study], Figure]:
    return lambda study: whole(figures.draw_token_attribution(study.example(), study.pair_tokens.index(word)))


def _caption(word: str) -> Callable[[Study], str]:
    return lambda study: (
        f"{study.model_name}; “{study.followed.text}” and “{study.followed.pair}”, the hidden vectors of “{word}”; "
        f"{DIRECTIONS} random directions per token (the paper: whole Jacobians)."
    )


def _gives(study: Study, word: str, late: bool = False) -> list[str]:
    """The other tokens that give most to a word, over all layers or the last third of them."""
    target = study.pair_tokens.index(word)
    shares = study.example().contribution.sel(target=target)
    shares = shares.isel(layer=slice(-max(1, study.layers // 3), None) if late else slice(None)).mean("layer").values.copy()
    shares[target] = -1
    return [f"{study.pair_tokens[place]} ({place - target:+d})" for place in np.argsort(-shares)[:FOREMOST]]


def _mostly(word: str, *givers: str, late: bool = False) -> Shape:
    """That each of these is among the first three others; a giver is a token, or a place beside the word."""

    def holds(study: Study) -> tuple[bool | None, str]:
        if not all(giver.startswith(("+", "-")) or giver in study.pair_tokens for giver in givers):
            return None, "other words"
        found = _gives(study, word, late)
        own = [any(each.startswith(f"{giver} ") or each.endswith(f"({giver})") for each in found) for giver in givers]
        return all(own), f"most from {', '.join(found)}"

    where = " in late layers" if late else ""
    names = " and ".join({"+1": "the next", "-1": "the one before"}.get(giver, f"“{giver}”") for giver in givers)
    return Shape(f"“{word}” is made of {names}{where}, among its {FOREMOST} largest", holds)


def _ignores_the_hyphen(study: Study) -> tuple[bool | None, str]:
    if not {"-", "term"} <= set(study.pair_tokens):
        return None, "other words"
    target = study.pair_tokens.index("long")
    shares = study.example().contribution.sel(target=target).mean("layer").values
    hyphen, term = float(shares[target + 1]), float(shares[target + 2])
    return hyphen < term, f"{100 * hyphen:.1f} % from “-”, {100 * term:.1f} % from “term”"


def _around_the_separator(study: Study) -> tuple[bool | None, str]:
    """Whether the three tokens on each side of the first [SEP] give more, a token, than the others do."""
    middle = study.pair_tokens.index("[SEP]")
    shares = study.example().contribution.sel(target=0).mean("layer").values
    near = np.abs(np.arange(len(shares)) - middle) <= 3
    far = ~near & (np.arange(len(shares)) > 0)
    if not far.any():
        return None, "short texts"
    inside, outside = (100 * float(shares[which].mean()) for which in (near, far))
    return inside > outside, f"{inside:.2f} % a token around it, {outside:.2f} % elsewhere"


def _verb_of_speech(study: Study) -> tuple[bool | None, str]:
    """Two tokens on each side of it, the other verb, and two on each side of the first [SEP], a token, against the others."""
    if not {"fit", "[SEP]"} <= set(study.pair_tokens):
        return None, "other words"
    target, verb, border = (study.pair_tokens.index(word) for word in ("said", "fit", "[SEP]"))
    shares = 100 * study.example().contribution.sel(target=target).mean("layer").values
    place = np.arange(len(shares))
    own = place == target
    groups = {
        "its neighbors": (np.abs(place - target) <= 2) & ~own,
        "“fit”": place == verb,
        "the border": np.abs(place - border) <= 2,
    }
    rest = float(shares[~(own | np.logical_or.reduce(list(groups.values())))].mean())
    means = {name: float(shares[which].mean()) for name, which in groups.items()}
    told = ", ".join(f"{mean:.1f} % a token of {name}" for name, mean in means.items())
    return min(means.values()) > rest, f"{told}, {rest:.1f} % of the rest"


CLAIMS: dict[str, tuple[str, tuple[Claim, ...]]] = {
    "19": ("[CLS]", (Shape("[CLS] is made more of the tokens around the first [SEP]", _around_the_separator),)),
    "20": ("he", (_mostly("he", "said"),)),
    "21": ("said", (Shape("“said” is made more of its neighbors, of “fit” and of the border between the texts than of the rest",
                          _verb_of_speech),)),
    "22": ("fit", (_mostly("fit", "fit", "strategy", late=True),)),
    "23": ("long", (_mostly("long", "term"), Shape("“long” takes less from the hyphen than from “term”", _ignores_the_hyphen))),
    "24": ("strategy", (_mostly("strategy", "growth"),)),
    "25": ("[SEP]", (_mostly("[SEP]", "[CLS]", "-1"),)),
}  # fmt: skip
PAIR_RECIPES = tuple(
    Recipe(number, f"Where “{word}” comes from", ("MRPC",), _draw(word), _caption(word), claims, needs_word=word)
    for number, (word, claims) in CLAIMS.items()
)
