"""Which map predicts what, and by how much, in sentences."""

import json
from collections.abc import Iterable

import numpy as np
import xarray as xr

from identiformer.figures.style import short_name
from identiformer.measures.faithfulness.bootstrap import estimate
from identiformer.measures.maps import MAPS

RAW = "raw"
NOTHING = "Nothing"
VARIANTS = ("_words", "_others")
"""Endings of yardsticks that count some of the sources."""
OPENING = 3
"""Yardsticks that the first paragraph is about."""
JUDGED = (("map", "yardstick", "score"), ("explanation", "explanation_yardstick", "explanation_score"))
"""Axes and score of what is compared: maps of layers, and explanations of the output."""


def overview(result: xr.Dataset, corpus: str) -> list[str]:
    """The first paragraph: which map predicts what on this model and corpus, and by how much."""
    examples = result.sizes["example"]
    count = f"{examples} example{'s' if examples != 1 else ''}"
    found = [winner for winner in winners(result) if winner[1] != NOTHING]
    first = ([winner for winner in found if not winner[0].endswith(("_head", *VARIANTS))] or found)[:OPENING]
    sentences = [f"{short_name(result.attrs['model'])} over {count} of {corpus}.", *(sentence for *_, sentence in first)]
    if len({best for _, best, _ in first}) > 1:
        sentences.append("No map is best at everything: what is removed, and how, decides which map predicts it.")
    return sentences


def caveats(result: xr.Dataset) -> list[str]:
    """What limits the comparison: short texts, few examples, what the model does not support, what was counted."""
    sentences = [
        f"Texts have {_range(result.tokens)} tokens, and the values of a head have rank {_range(result['rank'])}. Effective "
        "attention can differ from raw attention only where a text has more tokens than that rank; "
        f"{float(result.short_share):.0%} of texts have no more."
    ]
    equal = result.equal_to_raw.mean("layer")
    if names := [name for name in result["map"].values if name != RAW and equal.sel(map=name) > 0]:
        sentences.append(f"Equal to raw attention in some layers of some texts: {_titles(result, names)}.")
    if names := [name for name in result["map"].values if name in MAPS and MAPS[name].has_residual]:
        sentences.append(
            "These maps include what the residual connection carries, most of it from the token itself, which no removal of "
            f"attention takes away; compare them over other tokens only: {_titles(result, names)}."
        )
    if result.sizes["example"] < 2:
        sentences.append("One example has no interval.")
    unsupported, counts = (json.loads(result.attrs[name]) for name in ("unsupported", "counts"))
    sentences += [f"Not supported: {name}: {reason}" for name, reason in unsupported.items()]
    return sentences + [f"Counted by {name.replace('/', ': ')}: {count}." for name, count in counts.items()]


def winners(result: xr.Dataset) -> list[tuple[str, str, str]]:
    """By yardstick, the title of the map or explanation that predicts it best, and that in a sentence."""
    return [
        (str(name), *_winner(result.sel({yardsticks: name}), maps, yardsticks, score))
        for maps, yardsticks, score in JUDGED
        for name in result[yardsticks].values
    ]


def interval(scores: xr.Dataset, name: str) -> str:
    """A score with its interval, if it has one."""
    mean, low, high = (float(scores[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return f"{mean:.2f}" if np.isnan(low) else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def _winner(result: xr.Dataset, maps: str, yardsticks: str, score: str) -> tuple[str, str]:
    """The map with the highest score, those that do not differ from it on the same examples, and the difference to a rival.

    The rival is raw attention, or the map that scores next highest if raw attention is among the best or was not judged.
    """
    title, titles = str(result[f"{yardsticks}_title"].item()), [str(each) for each in result[f"{maps}_title"].values]
    names, scores = result[maps].values.tolist(), result[score].values
    # A map that is computed by what the yardstick does predicts it by definition.
    computed_alike = result[yardsticks].item()
    candidates = [index for index, name in enumerate(names) if name != computed_alike and np.isfinite(scores[index])]
    if not candidates:
        return NOTHING, f"{NOTHING} scores highest on {title}: nan."
    best, *others = sorted(candidates, key=lambda index: -scores[index])
    by_example = result[f"example_{score}"].transpose("example", maps).values
    behind = estimate(by_example[:, [best]] - by_example)
    ties = [index for index in sorted(others) if behind.low[index] <= 0]
    tied = f" (as well as {_listed(titles[index] for index in ties)}, within the interval)" if ties else ""
    first = titles[best][:1].upper() + titles[best][1:]
    sentence = f"{first} scores highest on {title}: {interval(result.isel({maps: best}), score)}{tied}"
    others = [index for index in others if index not in ties]
    if not others:
        return titles[best], f"{sentence}."
    rival = next((index for index in others if names[index] == RAW), others[0])
    mean, low, high = (float(each[rival]) for each in behind[:3])
    between = "" if np.isnan(low) else f" [{low:+.2f}, {high:+.2f}]"
    rest = f"{titles[rival]} scores {float(scores[rival]):.2f}, a difference of {mean:+.2f}{between}."
    return titles[best], f"{sentence}; {rest}"


def _titles(result: xr.Dataset, names: list[str]) -> str:
    return _listed(str(result.map_title.sel(map=name).item()) for name in names)


def _range(numbers: xr.DataArray) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return str(low) if low == high else f"{low} to {high}"


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
