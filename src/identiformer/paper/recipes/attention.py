"""Attention and effective attention over Wikipedia: Figures 1 and 5."""

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Shape, listed
from identiformer.paper.computations.study import LENGTHS, Study
from identiformer.paper.recipes.recipe import Recipe, whole


def _segments(study: Study) -> str:
    return f"{study.model_name}; {study.scale.segments} pairs of spans of Wikipedia, at most 128 tokens."


def _lengths(study: Study) -> str:
    return f"{study.model_name}; {len(study.openings)} texts of Wikipedia, of {LENGTHS[0]} to {LENGTHS[-1]} tokens."


def _short_is_one(study: Study) -> tuple[bool | None, str]:
    """Up to as many tokens as a head is wide there is no null space, but for values that are short of rank: those heads are
    set apart, and named."""
    result = study.attention_of_short()
    if result is None:
        return None, f"no text of at most {study.head_width} tokens"
    short_of_rank = (result.null_space_share > 0).values
    least = float(result.correlation.where(~short_of_rank).min())
    layers = result["layer"].values
    entire = [str(layer) for layer, heads in zip(layers, short_of_rank, strict=True) if heads.all()]
    apart = [f"{layers[layer]}.{head}" for layer, head in np.argwhere(short_of_rank & ~short_of_rank.all(1, keepdims=True))]
    told = [f"all heads of layers {' '.join(entire)}"] * bool(entire) + [f"layer.head {' '.join(apart)}"] * bool(apart)
    named = f"; set apart, with values short of rank in some text: {'; '.join(told)}" if told else ""
    return least > 0.9999, f"at least {least:.6f} in {(~short_of_rank).sum()} heads, up to {study.head_width} tokens{named}"


def _falls_with_length(study: Study) -> tuple[bool, str]:
    lengths, means, texts = _by_length(study)
    slope = float(np.polyfit(lengths, means, 1, w=np.sqrt(texts))[0])
    return slope < 0, f"{100 * slope:.3f} % a token"


def _by_length(study: Study) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    result = study.attention_by_length()
    seen = result.isel(length=np.flatnonzero(result.texts_by_length.values))
    return seen["length"].values, seen.correlation_by_length.values, seen.texts_by_length.values


def _received(study: Study, which: str, kind: str) -> np.ndarray:
    return study.attention()[f"{which}_received"].sel(kind=kind).mean("head").values


def _most_between(kind: str, start: float, end: float, where: str) -> Shape:
    """In which part of the depth a kind of tokens receives most, as shares of the number of layers."""

    def holds(study: Study) -> tuple[bool, str]:
        means = _received(study, "raw", kind)
        layer = int(means.argmax()) + 1
        return start * study.layers < layer <= end * study.layers, f"{listed(means)}, most in layer {layer}"

    return Shape(f"{kind} receives most in {where} layers", holds)


def _peak_is_gone(kind: str) -> Shape:
    """A peak is what the layer with most has more than the median layer; half of it or more would still be one."""

    def holds(study: Study) -> tuple[bool, str]:
        by_layer = [_received(study, which, kind) for which in ("raw", "effective")]
        raw, effective = (float(means.max() - np.median(means)) for means in by_layer)
        told = f"the highest layer above the median one: {100 * raw:.1f} points raw, {100 * effective:.1f} effective"
        return effective < raw / 2, told

    return Shape(f"the peak of {kind} is gone", holds)


def _punctuation_above(study: Study) -> tuple[bool, str]:
    means = {kind: _received(study, "effective", kind).mean() for kind in ("[CLS]", "[SEP]", "punctuation")}
    seen = ", ".join(f"{kind} {100 * value:.1f} %" for kind, value in means.items())
    return bool(means["punctuation"] > max(means["[CLS]"], means["[SEP]"])), seen


def _less_to_separators(study: Study) -> tuple[bool, str]:
    raw, effective = (float(study.attention()[f"{which}_from_others"].mean()) for which in ("raw", "effective"))
    return effective < raw / 2, f"on average {100 * raw:.1f} % raw, {100 * effective:.1f} % effective"


ATTENTION_RECIPES = (
    Recipe("1a", "Raw and effective attention part as texts grow", ("wiki",),
           lambda study: whole(figures.draw_correlation_by_length(study.attention_by_length())), _lengths,
           (Shape("the correlation is 1 up to as many tokens as a head is wide", _short_is_one),
            Shape("it falls with length", _falls_with_length))),
    Recipe("1b", "Raw attention that kinds of tokens receive", ("wiki",),
           lambda study: whole(figures.draw_received_by_kind(study.attention(), "raw")), _segments,
           (_most_between("[CLS]", 0.0, 1 / 3, "early"), _most_between("[SEP]", 1 / 4, 3 / 4, "middle"),
            _most_between("punctuation", 3 / 4, 1.0, "the last")), needs_separator=True),
    Recipe("1c", "Effective attention that kinds of tokens receive", ("wiki",),
           lambda study: whole(figures.draw_received_by_kind(study.attention(), "effective")), _segments,
           (_peak_is_gone("[SEP]"), _peak_is_gone("punctuation"),
            Shape("punctuation stands above [CLS] and [SEP]", _punctuation_above)), needs_separator=True),
    Recipe("5a", "Effective attention to [SEP]", ("wiki",),
           lambda study: whole(figures.draw_between_separators(study.attention(), "effective")), _segments, needs_separator=True),
    Recipe("5b", "Raw attention to [SEP]", ("wiki",),
           lambda study: whole(figures.draw_between_separators(study.attention(), "raw")), _segments,
           (Shape("most of the raw attention of others to [SEP] is null", _less_to_separators),), needs_separator=True),
)  # fmt: skip
