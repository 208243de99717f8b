"""Hidden Token Attribution of single tokens in one pair of texts: Figures 19 to 25."""

import numpy as np
from matplotlib.axes import Axes

from identiformer import figures
from identiformer.options import DIRECTIONS
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.declarations import Outcome, claim, recipe

WORDS = {"19": "[CLS]", "20": "he", "21": "said", "22": "fit", "23": "long", "24": "strategy", "25": "[SEP]"}
LARGEST = 3
"""How many of the largest contributors are compared with the paper's."""
OTHER_WORDS = "a pair without these words"


def _caption(study: Study, _: str) -> str:
    texts = f"“{study.shown_pair.text}” and “{study.shown_pair.pair}”"
    return f"{study.model_name}; {texts}; {DIRECTIONS} random directions per token (paper: full Jacobians)."


def _absent(study: Study, word: str) -> str | None:
    return None if word in study.pair_tokens else f"is about “{word}”, which is not a token of the pair that is shown"


@recipe(WORDS, "Contributions to “{}”", data="MRPC", caption=_caption, requires=(_absent,))
def draw_contributions(study: Study, word: str) -> Axes:
    return figures.draw_token_attribution(study.pair_attribution(), study.pair_tokens.index(word))


def _shares(study: Study, word: str) -> np.ndarray:
    """The contribution of each token to a word, averaged over layers."""
    return study.pair_attribution().contribution.sel(target=study.pair_tokens.index(word)).mean("layer").values


@claim("19", "tokens around the first [SEP] contribute more to [CLS] than other tokens")
def separator_contributes_to_cls(study: Study) -> Outcome:
    """Per token: the three on each side of [SEP] against the others."""
    shares = study.pair_attribution().contribution.sel(target=0).mean("layer").values
    position = np.arange(len(shares))
    near = np.abs(position - study.pair_tokens.index("[SEP]")) <= 3
    far = ~near & (position > 0)
    if not far.any():
        return None, "short texts"
    inside, outside = (100 * float(shares[which].mean()) for which in (near, far))
    return inside > outside, f"{inside:.2f} % per token around it, {outside:.2f} % elsewhere"


def _are_largest(study: Study, word: str, *contributors: str, layers: int = 0) -> Outcome:
    """Whether each contributor, a token or the offset -1, is among the largest; layers: how many of the last, 0 for all."""
    if not all(name == "-1" or name in study.pair_tokens for name in contributors):
        return None, OTHER_WORDS
    target = study.pair_tokens.index(word)
    shares = study.pair_attribution().contribution.sel(target=target)
    shares = shares.isel(layer=slice(-layers, None)).mean("layer").values.copy()
    shares[target] = -1
    largest = [f"{study.pair_tokens[source]} ({source - target:+d})" for source in np.argsort(-shares)[:LARGEST]]
    matches = [any(source.startswith(f"{name} ") or source.endswith(f"({name})") for source in largest) for name in contributors]
    return all(matches), f"largest from {', '.join(largest)}"


@claim(
    {"20": ("said", "he"), "23": ("term", "long"), "24": ("growth", "strategy")},
    "“{}” is among the 3 largest contributors to “{}”",
)
def word_contributes(study: Study, contributor: str, word: str) -> Outcome:
    return _are_largest(study, word, contributor)


@claim("21", "its neighbors, “fit” and the border between the texts contribute more to “said” than the other tokens")
def border_contributes_to_verb(study: Study) -> Outcome:
    """Per token: two on each side of the word, the other verb, and two on each side of the first [SEP], against the others."""
    if not {"fit", "[SEP]"} <= set(study.pair_tokens):
        return None, OTHER_WORDS
    target, verb, border = (study.pair_tokens.index(word) for word in ("said", "fit", "[SEP]"))
    shares = 100 * _shares(study, "said")
    position = np.arange(len(shares))
    itself = position == target
    groups = {
        "its neighbors": (np.abs(position - target) <= 2) & ~itself,
        "“fit”": position == verb,
        "the border": np.abs(position - border) <= 2,
    }
    others = float(shares[~(itself | np.logical_or.reduce(list(groups.values())))].mean())
    means = {name: float(shares[which].mean()) for name, which in groups.items()}
    evidence = ", ".join(f"{mean:.1f} % from {name}" for name, mean in means.items())
    return min(means.values()) > others, f"per token {evidence}, {others:.1f} % from the others"


@claim("22", "“fit” and “strategy” are among the 3 largest contributors to “fit” in late layers")
def object_contributes_in_late_layers(study: Study) -> Outcome:
    return _are_largest(study, "fit", "fit", "strategy", layers=max(1, study.layers // 3))


@claim("23", "the hyphen contributes less to “long” than “term” does")
def hyphen_contributes_less(study: Study) -> Outcome:
    if not {"-", "term"} <= set(study.pair_tokens):
        return None, OTHER_WORDS
    target, shares = study.pair_tokens.index("long"), _shares(study, "long")
    hyphen, term = float(shares[target + 1]), float(shares[target + 2])
    return hyphen < term, f"{100 * hyphen:.1f} % from “-”, {100 * term:.1f} % from “term”"


@claim("25", "“[CLS]” and the previous token are among the 3 largest contributors to “[SEP]”")
def previous_contributes_to_separator(study: Study) -> Outcome:
    return _are_largest(study, "[SEP]", "[CLS]", "-1")
