"""Attention and effective attention over Wikipedia and on one passage: Figures 1, 5 and 6."""

import numpy as np

from identiformer import figures
from identiformer.paper.claims import Shape
from identiformer.paper.recipe import Recipe, whole
from identiformer.paper.study import LENGTHS, Study


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


def _peak_is_flatter(kind: str):  # noqa: ANN202
    def holds(study: Study) -> tuple[bool, str]:
        raw, effective = (_received(study, which, kind).max() for which in ("raw", "effective"))
        return bool(effective < raw), f"peak {100 * raw:.1f} % raw, {100 * effective:.1f} % effective"

    return holds


def _punctuation_above(study: Study) -> tuple[bool, str]:
    means = {kind: _received(study, "effective", kind).mean() for kind in ("[CLS]", "[SEP]", "punctuation")}
    seen = ", ".join(f"{kind} {100 * value:.1f} %" for kind, value in means.items())
    return bool(means["punctuation"] > max(means["[CLS]"], means["[SEP]"])), seen


def _less_to_separators(study: Study) -> tuple[bool, str]:
    raw, effective = (study.attention()[f"{which}_from_others"].mean("head").max() for which in ("raw", "effective"))
    return bool(effective < raw), f"peak {100 * float(raw):.1f} % raw, {100 * float(effective):.1f} % effective"


def _passage(study: Study) -> str:
    result = study.passage()
    return f"{study.model_name}; the embedded passage, layer {int(result['layer'][0])}, head {_head(study)}."


def _head(study: Study) -> int:
    """The head whose raw attention misleads most."""
    return int(study.passage().correlation.isel(layer=0).argmin("head"))


def _draw_passage(study: Study):  # noqa: ANN202
    result = study.passage()
    return whole(figures.draw_attention_maps(result, int(result["layer"][0]), _head(study))[0])


def _null_mass_on_special(study: Study) -> tuple[bool | None, str]:
    """Whether [CLS] and [SEP] carry more of A∥ than of A⊥."""
    result = study.passage().isel(layer=0, head=_head(study))
    if not np.abs(result["null"].values).any():
        return None, "no null space: the passage is short"
    special = np.isin(result["key_token"].values, study.model.tokenizer.all_special_tokens)
    shares = [
        float(np.abs(result[name].values[:, special]).sum() / np.abs(result[name].values).sum()) for name in ("null", "effective")
    ]
    return shares[0] > shares[1], f"{100 * shares[0]:.0f} % of A∥, {100 * shares[1]:.0f} % of A⊥ stand at special tokens"


ATTENTION_RECIPES = (
    Recipe("1a", "Raw and effective attention part as texts grow", ("wiki",),
           lambda study: whole(figures.draw_correlation_by_length(study.attention_by_length())), _lengths,
           (Shape("the correlation is 1 up to as many tokens as a head is wide", _short_is_one),
            Shape("it falls with length", _falls_with_length))),
    Recipe("1b", "Raw attention that kinds of tokens receive", ("wiki",),
           lambda study: whole(figures.draw_received_by_kind(study.attention(), "raw")), _segments, needs_separator=True),
    Recipe("1c", "Effective attention that kinds of tokens receive", ("wiki",),
           lambda study: whole(figures.draw_received_by_kind(study.attention(), "effective")), _segments,
           (Shape("the peak of [SEP] is gone", _peak_is_flatter("[SEP]")),
            Shape("the peak of punctuation is gone", _peak_is_flatter("punctuation")),
            Shape("punctuation stands above [CLS] and [SEP]", _punctuation_above)), needs_separator=True),
    Recipe("5a", "Effective attention to [SEP]", ("wiki",),
           lambda study: whole(figures.draw_between_separators(study.attention(), "effective")), _segments, needs_separator=True),
    Recipe("5b", "Raw attention to [SEP]", ("wiki",),
           lambda study: whole(figures.draw_between_separators(study.attention(), "raw")), _segments,
           (Shape("effective attention to [SEP] stays below raw", _less_to_separators),), needs_separator=True),
    Recipe("6", "A, A⊥ and A∥ of one head", (), _draw_passage, _passage,
           (Shape("[CLS] and [SEP] carry more of A∥ than of A⊥", _null_mass_on_special),)),
)  # fmt: skip
