"""Hidden Token Attribution over a corpus: self-contribution by layer and by tag, and where contributions come from.

Figs. 3, 4, 18 and 26-37.
"""

import numpy as np
import torch
import xarray as xr

from identiformer.equations.attribution.hidden_token import NEIGHBORS, contribution_by_neighbors
from identiformer.measures.attribution.hidden_token import attribution_of
from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.state import BINS, LIMBS, QUANTILE_ERROR, State, histogram, mean, quantiles, split, total
from identiformer.passage import Passage
from identiformer.results import labeled
from identiformer.texts import Survey
from identiformer.texts.tagging import OTHER_TAG, PENN_TAGS, load_tagger, penn_tags

FARTHEST = 128
"""Larger distances and positions are counted under this one."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TAGS = (*PENN_TAGS, "[CLS]", "[SEP]", OTHER_TAG)
"""[CLS] and [SEP] are the tokens that open and close a text, whatever the tokenizer calls them."""
TAG_INDEX = {tag: index for index, tag in enumerate(TAGS)}
TAGS_OF_WORDS = {tag: tag for tag in PENN_TAGS} | {"-LRB-": "(", "-RRB-": ")"}
"""Tags of words and what they count as: the treebank and Stanford's tagger write brackets in letters."""


def _observe(observation: Observation) -> State:
    """Sums over the tokens of one text, always added in the same order."""
    result = attribution_of(observation.passage)
    shares, tokens = result.contribution.values, result.sizes["source"]
    self_contribution = result.self_contribution.values
    mixed = result.main_contributor.values != np.arange(tokens)
    neighbors = contribution_by_neighbors(torch.tensor(shares), torch.arange(tokens)).numpy()
    defined = ~np.isnan(neighbors)
    return State(
        {
            "self_histogram": histogram(self_contribution.clip(0, 1)),
            "self_contribution": split(self_contribution.sum(-1)),
            "distribution_error": split(result.distribution_error.values.sum(-1)),
            "tokens": np.full(len(self_contribution), tokens),
            "not_own_main": mixed.sum(-1),
            "certainly_not_own_main": (mixed & result.main_contributor_certain.values).sum(-1),
            "by_distance": split(_by_distance(shares)),
            "by_neighbors": split(np.where(defined, neighbors, 0.0).sum(1)),
            "by_neighbors_count": defined.sum(1),
            **_to_first_token(shares, observation.passage, observation.example.pair is not None),
        }
    )


def _by_distance(shares: np.ndarray) -> np.ndarray:
    """Summed contribution by source position minus target position, from -FARTHEST to FARTHEST."""
    tokens = shares.shape[-1]
    distance = (np.arange(tokens) - np.arange(tokens)[:, None]).clip(-FARTHEST, FARTHEST) + FARTHEST
    return np.stack([np.bincount(distance.ravel(), layer.ravel(), minlength=2 * FARTHEST + 1) for layer in shares])


def _to_first_token(shares: np.ndarray, passage: Passage, is_pair: bool) -> dict[str, np.ndarray]:
    """Contributions to the first token, such as [CLS], by position, and by distance from the end of a pair's first text."""
    positions = np.arange(shares.shape[-1])
    by_position = np.zeros((len(shares), FARTHEST + 1))
    near = positions[positions <= FARTHEST]
    by_position[:, near] = shares[:, 0, near]
    from_separator = np.zeros((len(shares), 2 * FARTHEST + 1))
    separator, texts = passage.model.tokenizer.sep_token, passage.tokens.texts
    if is_pair and separator in texts:
        offset = positions - texts.index(separator)
        near = (np.abs(offset) <= FARTHEST) & (positions > 0)
        from_separator[:, offset[near] + FARTHEST] = shares[:, 0, near]
    return {"cls_by_position": split(by_position), "cls_from_separator": split(from_separator)}


def _finalize(state: State) -> xr.Dataset:
    """Means and shares over tokens; quantiles from a histogram, with their error."""
    tokens = state["tokens"]
    by_distance, by_position = total(state["by_distance"]), total(state["cls_by_position"])
    by_distance[:, FARTHEST] = by_position[:, 0] = 0  # only contributions of other tokens
    arrays = {
        "self_contribution_quantiles": quantiles(state["self_histogram"], QUANTILES),
        "quantile_error": QUANTILE_ERROR,
        **{name: mean(state[name], tokens) for name in ("self_contribution", "distribution_error")},
        **{name: state[name] / tokens for name in ("not_own_main", "certainly_not_own_main")},
        "by_distance": _normalized(by_distance),
        "by_neighbors": mean(state["by_neighbors"], state["by_neighbors_count"]),
        "cls_by_position": _normalized(by_position),
        "cls_from_separator": _normalized(total(state["cls_from_separator"])),
        "tokens": tokens,
    }
    coordinates = {
        "layer": np.arange(1, len(tokens) + 1),
        "quantile": list(QUANTILES),
        "distance": np.arange(-FARTHEST, FARTHEST + 1),
        "group": list(NEIGHBORS),
        "position": np.arange(FARTHEST + 1),
    }
    return labeled("corpus_token_attribution", arrays, coordinates)


def _normalized(totals: np.ndarray) -> np.ndarray:
    """Totals over all texts as shares, as in Figs. 4b and 18; NaN where they are zero."""
    with np.errstate(invalid="ignore"):
        return totals / totals.sum(-1, keepdims=True)


def _tag_indices(passage: Passage) -> np.ndarray:
    """The tag of each token, as an index into TAGS."""
    tokenizer, tokens, example = passage.model.tokenizer, passage.tokens, passage.example
    names = {tokenizer.sep_token or tokenizer.eos_token: "[SEP]", tokenizer.cls_token or tokenizer.bos_token: "[CLS]"}
    tags = penn_tags(tokens, example.text, example.pair, example.tags, example.pair_tags)
    # Only tokens that the tokenizer added have special names: a word of the corpus may be tagged [SEP].
    known = [
        names.get(tag, tag) if added else TAGS_OF_WORDS.get(tag, OTHER_TAG)
        for tag, added in zip(tags, tokens.special, strict=True)
    ]
    return np.array([TAG_INDEX.get(tag, TAG_INDEX[OTHER_TAG]) for tag in known])


def _tagger_packages(survey: Survey) -> tuple[str, ...]:
    """The packages of the tagger; none if every word of the corpus is tagged."""
    if survey.tagged:
        return ()
    load_tagger()
    return ("nltk",)


def _observe_by_tag(observation: Observation) -> State:
    """A histogram and the sum of c_jj for each layer and tag."""
    passage = observation.passage
    self_contribution, tags = attribution_of(passage).self_contribution.values, _tag_indices(passage)
    counts = np.zeros((len(self_contribution), len(TAGS), BINS), np.int64)
    sums = np.zeros((len(self_contribution), len(TAGS), LIMBS), np.int64)
    for tag in np.unique(tags):
        shares = self_contribution[:, tags == tag]
        counts[:, tag], sums[:, tag] = histogram(shares.clip(0, 1)), split(shares.sum(-1))
    return State({"histogram": counts, "self_contribution": sums, "tokens": np.bincount(tags, minlength=len(TAGS))})


def _finalize_by_tag(state: State) -> xr.Dataset:
    """Means over the tokens of each tag; quantiles from a histogram, with their error."""
    arrays = {
        "self_contribution_quantiles": quantiles(state["histogram"], QUANTILES),
        "quantile_error": QUANTILE_ERROR,
        "self_contribution": mean(state["self_contribution"], state["tokens"]),
        "tokens": state["tokens"],
    }
    coordinates = {"layer": np.arange(1, len(state["histogram"]) + 1), "tag": list(TAGS), "quantile": list(QUANTILES)}
    return labeled("corpus_self_contribution_by_tag", arrays, coordinates)


TOKEN_ATTRIBUTION = CorpusMeasure("token_attribution", _observe, _finalize, needs_trace=False, cheap=False)
SELF_CONTRIBUTION_BY_TAG = CorpusMeasure(
    "self_contribution_by_tag", _observe_by_tag, _finalize_by_tag, needs_trace=False, cheap=False, packages=_tagger_packages
)
