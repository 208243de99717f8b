"""Raw and effective attention over Wikipedia, and of one head over one passage: Figures 1, 5 and 6."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from identiformer import figures
from identiformer.paper.computations.study import LENGTHS, Study
from identiformer.paper.recipes.declarations import Outcome, claim, percentages, recipe, separator

DEPTHS = {"early": (0.0, 1 / 3), "middle": (1 / 4, 3 / 4), "the last": (3 / 4, 1.0)}
"""Ranges of layers, as shares of their number."""
VERB, PRONOUN = "make", "them"
"""The far reference in the paper's passage: the verb attends to the first occurrence of the pronoun."""


def _segment_caption(study: Study, _: str) -> str:
    return f"{study.model_name}; {study.scale.segments} pairs of Wikipedia spans, at most 128 tokens."


@recipe(
    "1a",
    "Correlation between raw and effective attention, by text length",
    data="wiki",
    caption=lambda study, _: (
        f"{study.model_name}; {len(study.openings)} Wikipedia texts of {LENGTHS[0]} to {LENGTHS[-1]} tokens."
    ),
)
def draw_correlation(study: Study) -> Axes:
    return figures.draw_correlation_by_length(study.attention_by_length())


@claim("1a", "in heads whose values have full rank, the correlation is 1 for texts with at most as many tokens as a head is wide")
def is_one_for_short_texts(study: Study) -> Outcome:
    """Such texts have no null space, except where values are rank-deficient: those heads are excluded, and listed.

    If most heads are excluded, the claim about the model is undecided.
    """
    result = study.attention_of_short()
    if result is None:
        return None, f"no text of at most {study.head_width} tokens"
    deficient = (result.null_space_share > 0).values
    least = float(result.correlation.where(~deficient).min())
    layers = result["layer"].values
    entire = [str(layer) for layer, heads in zip(layers, deficient, strict=True) if heads.all()]
    single = [f"{layers[layer]}.{head}" for layer, head in np.argwhere(deficient & ~deficient.all(1, keepdims=True))]
    excluded = [f"all heads of layers {' '.join(entire)}"] * bool(entire) + [f"layer.head {' '.join(single)}"] * bool(single)
    listed = f"; excluded, with rank-deficient values in some text: {'; '.join(excluded)}" if excluded else ""
    untested = deficient.mean() > 0.5
    return (
        None if untested and least > 0.9999 else least > 0.9999,
        f"at least {least:.6f} in {(~deficient).sum()} of {deficient.size} heads, up to {study.head_width} tokens{listed}",
    )


@claim("1a", "the correlation falls with text length")
def falls_with_length(study: Study) -> Outcome:
    result = study.attention_by_length()
    present = result.isel(length=np.flatnonzero(result.texts_by_length.values))
    weights = np.sqrt(present.texts_by_length.values)
    slope = float(np.polyfit(present["length"].values, present.correlation_by_length.values, 1, w=weights)[0])
    return slope < 0, f"{100 * slope:.3f} % per token"


@recipe(
    {"1b": "raw", "1c": "effective"},
    "{} attention received, by kind of token",
    data="wiki",
    caption=_segment_caption,
    requires=(separator,),
)
def draw_received(study: Study, component: str) -> Axes:
    return figures.draw_received_by_kind(study.attention(), component)


def _received(study: Study, component: str, kind: str) -> np.ndarray:
    return study.attention()[f"{component}_received"].sel(kind=kind).mean("head").values


@claim(
    {"1b": [("[CLS]", "early"), ("[SEP]", "middle"), ("punctuation", "the last")]}, "{} receives the most attention in {} layers"
)
def peaks_in(study: Study, kind: str, depth: str) -> Outcome:
    start, end = DEPTHS[depth]
    means = _received(study, "raw", kind)
    layer = int(means.argmax()) + 1
    return start * study.layers < layer <= end * study.layers, f"{percentages(means)}, most in layer {layer}"


@claim({"1c": ["[SEP]", "punctuation"]}, "the peak of {} disappears")
def peak_disappears(study: Study, kind: str) -> Outcome:
    """A peak is the difference between the highest layer and the median one; less than half of it counts as none."""
    by_layer = [_received(study, component, kind) for component in ("raw", "effective")]
    raw, effective = (float(means.max() - np.median(means)) for means in by_layer)
    evidence = f"highest layer minus median layer: {100 * raw:.1f} points raw, {100 * effective:.1f} effective"
    return effective < raw / 2, evidence


@claim("1c", "punctuation receives more effective attention than [CLS] and [SEP]")
def punctuation_receives_most(study: Study) -> Outcome:
    means = {kind: _received(study, "effective", kind).mean() for kind in ("[CLS]", "[SEP]", "punctuation")}
    evidence = ", ".join(f"{kind} {100 * value:.1f} %" for kind, value in means.items())
    return bool(means["punctuation"] > max(means["[CLS]"], means["[SEP]"])), evidence


@recipe({"5a": "effective", "5b": "raw"}, "{} attention to [SEP]", data="wiki", caption=_segment_caption, requires=(separator,))
def draw_between_separators(study: Study, component: str) -> Axes:
    return figures.draw_between_separators(study.attention(), component)


@claim("5b", "most raw attention from other tokens to [SEP] is in the null component")
def attention_to_separators_is_null(study: Study) -> Outcome:
    raw, effective = (float(study.attention()[f"{component}_from_others"].mean()) for component in ("raw", "effective"))
    return effective < raw / 2, f"on average {100 * raw:.1f} % raw, {100 * effective:.1f} % effective"


def _passage(study: Study) -> xr.Dataset:
    """All heads of the layer, only the rows of the sentence to show if there is one."""
    result, sentence = study.passage_attention().isel(layer=0), study.passage.shown
    if sentence is None:
        return result
    tokens = result["query_token"].values.tolist()
    special = set(study.model.tokenizer.all_special_tokens)
    wanted = [token for token in study.model.tokens(sentence).texts if token not in special]
    starts = [start for start in range(len(tokens)) if tokens[start : start + len(wanted)] == wanted]
    return result.isel(query=slice(starts[0], starts[0] + len(wanted))) if starts else result


def _largest_off_diagonal(result: xr.Dataset) -> list[tuple[int, int]]:
    """The query and key of the largest off-diagonal effective weight, for each head."""
    off = result["effective"].where(result["query"] != result["key"])
    indices = [np.unravel_index(int(np.nanargmax(head.values)), head.shape) for head in off.transpose("head", "query", "key")]
    return [(int(result["query"][row]), int(key)) for row, key in indices]


def _far_reference(study: Study) -> tuple[int, int] | None:
    """The positions of the paper's verb and pronoun; None in a different passage."""
    tokens = study.passage_attention()["key_token"].values.tolist()
    return (tokens.index(VERB), tokens.index(PRONOUN)) if {VERB, PRONOUN} <= set(tokens) else None


def _passage_head(study: Study) -> int:
    """The head whose largest weight is the far reference; if there is none, the head with the lowest correlation."""
    result, reference = _passage(study), _far_reference(study)
    if reference in (largest := _largest_off_diagonal(result)):
        return largest.index(reference)
    return int(result.correlation.argmin("head"))


def _passage_caption(study: Study) -> str:
    result, passage = _passage(study), study.passage
    ends = f"“{passage.text.split()[0]} … {(passage.pair or passage.text).split()[-1]}”"
    text = "the built-in passage" if passage.is_embedded else ends
    rows = "" if result.sizes["query"] == result.sizes["key"] else f", rows of “{passage.shown}”"
    head = f"layer {int(result['layer'])}, head {_passage_head(study)}"
    return f"{study.model_name}; {text}, {result.sizes['key']} tokens{rows}; {head}."


@recipe("6", "A, A⊥ and A∥ of one head", caption=_passage_caption)
def draw_passage(study: Study) -> Axes:
    result = _passage(study).expand_dims("layer")
    return figures.draw_attention_maps(result, int(result["layer"][0]), _passage_head(study))[0]


@claim("6", "[CLS] and [SEP] vanish from A⊥ and remain in A∥")
def special_tokens_vanish(study: Study) -> Outcome:
    """Their share of A⊥ is less than half of their share of A, and less than their share of A∥."""
    result = _passage(study).isel(head=_passage_head(study))
    if not np.abs(result["null"].values).any():
        return None, "no null space: the passage is short"
    special = np.isin(result["key_token"].values, study.model.tokenizer.all_special_tokens)
    weights = {name: np.abs(result[name].transpose("query", "key").values) for name in ("raw", "effective", "null")}
    raw, effective, null = (100 * float(matrix[:, special].sum() / matrix.sum()) for matrix in weights.values())
    evidence = f"special tokens hold {raw:.0f} % of A, {effective:.0f} % of A⊥, {null:.0f} % of A∥"
    return effective < raw / 2 and null > effective, evidence


@claim("6", f"in some head the largest off-diagonal weight of A⊥ is from “{VERB}” to “{PRONOUN}”, 48 tokens apart")
def verb_attends_to_pronoun(study: Study) -> Outcome:
    reference = _far_reference(study)
    if reference is None:
        return None, "a different passage"
    result = _passage(study)
    tokens, largest = result["key_token"].values, _largest_off_diagonal(result)
    apart = f"{reference[0] - reference[1]} tokens apart"
    if reference in largest:
        return True, f"in head {largest.index(reference)}, {apart}"
    weights = ", ".join(f"{tokens[query]} → {tokens[key]}" for query, key in largest)
    return False, f"{apart}; largest per head: {weights}"
