"""What every map and explanation promises, for each registered kind and each layout of blocks."""

import json
from functools import cache

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps import MAPS
from identiformer.models import load
from identiformer.support.tiny_models import tiny_model
from tests.models.families import word_tokenizer, words
from tests.models.network_state import network_state, process_state

FAMILIES = ("bert", "llama", "gpt2")
TEXT = words(9)  # with two special tokens, more than a head of these models is wide

SUM_TO_ONE = {
    *("raw", "raw_words", "raw_residual", "sum_preserving", "minimum_norm", "maximum_entropy", "efficient"),
    *("contribution", "alti", "value_zeroing", "token_attribution", "uniform", "random", "distance"),
}
MAY_BE_ZERO = {"raw_words", "alti", "value_zeroing"}
"""Maps with rows in which no key matters."""


@cache
def model_of(family):
    return load(tiny_model(family), word_tokenizer())


def compute(name, family):
    try:
        return idf.maps(model_of(family), TEXT, kinds=[name])
    except UnsupportedModelError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", MAPS)
def test_maps_keep_their_promises(name, family):
    model, kind = model_of(family), MAPS[name]
    before, process = network_state(model.network), process_state()
    result = compute(name, family)
    assert network_state(model.network) == before
    assert process_state() == process
    tokens = len(model.tokens(TEXT))
    scores = (result.importance if kind.explains_output else result.score).values[0]
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()
    assert kind.signed or (scores >= 0).all()
    if kind.explains_output:
        assert scores.shape == (tokens,)
    else:
        assert scores.shape == (2, tokens, tokens)
        visible = np.ones((tokens, tokens), bool) if family == "bert" else np.tri(tokens, dtype=bool)
        assert not scores[:, ~visible].any()
        if name in SUM_TO_ONE:
            sums = scores.sum(-1)
            assert (np.isclose(sums, 1, atol=1e-5) | ((sums == 0) & (name in MAY_BE_ZERO))).all()
    again = compute(name, family)
    np.testing.assert_array_equal(scores, (again.importance if kind.explains_output else again.score).values[0])


@pytest.mark.parametrize("name", MAPS)
def test_every_map_is_described(name):
    kind = MAPS[name]
    assert kind.name == name
    assert all((kind.title, kind.formula, kind.paper, kind.cost, kind.needs))


@pytest.mark.parametrize("family", FAMILIES)
def test_all_cheap_maps_are_supported(family):
    result = idf.maps(model_of(family), TEXT)
    assert set(json.loads(result.attrs["unsupported"])) <= {name for name, kind in MAPS.items() if kind.explains_output}
    assert set(result["map"].values) == {name for name, kind in MAPS.items() if kind.cheap and not kind.explains_output}
