"""Self-contribution over a corpus by part of speech: which kinds of words stay themselves. Figs. 26-37."""

import numpy as np
import xarray as xr

from identiformer.measures.corpus.exact_sum import LIMBS, mean, split
from identiformer.measures.corpus.histogram import BINS, QUANTILE_ERROR, histogram, quantiles
from identiformer.measures.corpus.measure import CorpusMeasure, Observation
from identiformer.measures.corpus.state import State
from identiformer.measures.corpus.token_attribution import QUANTILES
from identiformer.texts import Survey
from identiformer.texts.tagging import OTHER_TAG, PENN_TAGS, load_tagger, penn_tags

TAGS = (*PENN_TAGS, "[CLS]", "[SEP]", OTHER_TAG)
"""The token that opens a text and the one that closes it go under [CLS] and [SEP], whatever the tokenizer calls them."""
PLACES = {tag: place for place, tag in enumerate(TAGS)}
TAGS_OF_WORDS = {tag: tag for tag in PENN_TAGS} | {"-LRB-": "(", "-RRB-": ")"}
"""Tags that can be given, and those that they go under: the treebank and Stanford's tagger write brackets in letters."""


def tag_places(seen: Observation) -> np.ndarray:
    """The tag of each token, as an index into TAGS."""
    tokenizer = seen.model.tokenizer
    names = {tokenizer.sep_token or tokenizer.eos_token: "[SEP]", tokenizer.cls_token or tokenizer.bos_token: "[CLS]"}
    example, special = seen.example, seen.tokens.special
    tags = penn_tags(seen.tokens, example.text, example.pair, example.tags, example.pair_tags)
    # Only of tokens that the tokenizer added: a word may have been given any tag, even [SEP].
    known = [
        names.get(tag, tag) if added else TAGS_OF_WORDS.get(tag, OTHER_TAG) for tag, added in zip(tags, special, strict=True)
    ]
    return np.array([PLACES.get(tag, PLACES[OTHER_TAG]) for tag in known])


def packages(survey: Survey) -> tuple[str, ...]:
    """The tagger's, unless the corpus brings all tags."""
    if survey.tagged:
        return ()
    load_tagger()
    return ("nltk",)


def observe(seen: Observation) -> State:
    """For each layer and tag a histogram of c_jj, and its sum."""
    own, places = seen.attribution.self_contribution.values, tag_places(seen)
    counts = np.zeros((len(own), len(TAGS), BINS), np.int64)
    sums = np.zeros((len(own), len(TAGS), LIMBS), np.int64)
    for place in np.unique(places):
        shares = own[:, places == place]
        counts[:, place], sums[:, place] = histogram(shares.clip(0, 1)), split(shares.sum(-1))
    return State({"histogram": counts, "self_contribution": sums, "tokens": np.bincount(places, minlength=len(TAGS))})


def finalize(state: State) -> xr.Dataset:
    """Means over the tokens of each tag; quantiles from a histogram, with its error beside them."""
    layer_tag = ("layer", "tag")
    variables = {
        "self_contribution_quantiles": (("quantile", *layer_tag), quantiles(state["histogram"], QUANTILES)),
        "quantile_error": ((), QUANTILE_ERROR),
        "self_contribution": (layer_tag, mean(state["self_contribution"], state["tokens"])),
        "tokens": (("tag",), state["tokens"]),
    }
    layers = np.arange(1, len(state["histogram"]) + 1)
    return xr.Dataset(variables, {"layer": layers, "tag": list(TAGS), "quantile": list(QUANTILES)})


SELF_CONTRIBUTION_BY_TAG = CorpusMeasure(
    "self_contribution_by_tag", observe, finalize, needs_trace=False, cheap=False, packages=packages
)
