"""Attention, effective and null attention of one head over one passage: Figure 6."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from identiformer import figures
from identiformer.paper.claims import Shape
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.recipe import Recipe, whole

VERB, PRONOUN = "make", "them"
"""Of the paper's passage: what attends, and the first of these is what it attends to, far away."""


def _shown(study: Study) -> xr.Dataset:
    """All heads of the layer, and the rows of the sentence that is to be shown, if there is one."""
    result, sentence = study.passage().isel(layer=0), study.read.shown
    if sentence is None:
        return result
    tokens = result["query_token"].values.tolist()
    special = set(study.model.tokenizer.all_special_tokens)
    wanted = [token for token in study.model.tokens(sentence).texts if token not in special]
    starts = [start for start in range(len(tokens)) if tokens[start : start + len(wanted)] == wanted]
    return result.isel(query=slice(starts[0], starts[0] + len(wanted))) if starts else result


def _largest_elsewhere(result: xr.Dataset) -> list[tuple[int, int]]:
    """For each head the query and the key of the largest effective weight that is not on the diagonal."""
    off = result["effective"].where(result["query"] != result["key"])
    places = [np.unravel_index(int(np.nanargmax(head.values)), head.shape) for head in off.transpose("head", "query", "key")]
    return [(int(result["query"][row]), int(key)) for row, key in places]


def _far_reference(study: Study) -> tuple[int, int] | None:
    """Where the paper's verb and pronoun stand; None in another passage."""
    tokens = study.passage()["key_token"].values.tolist()
    return (tokens.index(VERB), tokens.index(PRONOUN)) if {VERB, PRONOUN} <= set(tokens) else None


def _head(study: Study) -> int:
    """That in which the verb gives most to the pronoun, if there is one; else the one whose raw attention misleads most."""
    result, place = _shown(study), _far_reference(study)
    if place in (found := _largest_elsewhere(result)):
        return found.index(place)
    return int(result.correlation.argmin("head"))


def _draw(study: Study) -> Figure:
    result = _shown(study).expand_dims("layer")
    return whole(figures.draw_attention_maps(result, int(result["layer"][0]), _head(study))[0])


def _caption(study: Study) -> str:
    result, read = _shown(study), study.read
    text = "the embedded passage" if read.embedded else f"“{read.text.split()[0]} … {(read.pair or read.text).split()[-1]}”"
    rows = "" if result.sizes["query"] == result.sizes["key"] else f", rows of “{read.shown}”"
    return f"{study.model_name}; {text}, {result.sizes['key']} tokens{rows}; layer {int(result['layer'])}, head {_head(study)}."


def _special_vanish(study: Study) -> tuple[bool | None, str]:
    """Whether [CLS] and [SEP] have less than half of the share of A⊥ that they have of A, and more of A∥ than of A⊥."""
    result = _shown(study).isel(head=_head(study))
    if not np.abs(result["null"].values).any():
        return None, "no null space: the passage is short"
    special = np.isin(result["key_token"].values, study.model.tokenizer.all_special_tokens)
    weights = {name: np.abs(result[name].transpose("query", "key").values) for name in ("raw", "effective", "null")}
    raw, effective, null = (100 * float(each[:, special].sum() / each.sum()) for each in weights.values())
    told = f"{raw:.0f} % of A, {effective:.0f} % of A⊥, {null:.0f} % of A∥ stand at special tokens"
    return effective < raw / 2 and null > effective, told


def _verb_finds_pronoun(study: Study) -> tuple[bool | None, str]:
    place = _far_reference(study)
    if place is None:
        return None, "another passage"
    result = _shown(study)
    tokens, found = result["key_token"].values, _largest_elsewhere(result)
    apart = f"{place[0] - place[1]} apart"
    if place in found:
        return True, f"in head {found.index(place)}, {apart}"
    told = ", ".join(f"{tokens[query]} → {tokens[key]}" for query, key in found)
    return False, f"{apart}; the largest of each head: {told}"


PASSAGE_RECIPES = (
    Recipe("6", "A, A⊥ and A∥ of one head", (), _draw, _caption,
           (Shape("[CLS] and [SEP] vanish from A⊥, and stand in A∥", _special_vanish),
            Shape(f"in some head the largest of A⊥ off the diagonal is from “{VERB}” to “{PRONOUN}”, 48 tokens apart",
                  _verb_finds_pronoun))),
)  # fmt: skip
