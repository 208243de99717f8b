"""Laws of every registered measure: merging is associative, nothing is neutral, any sharding gives the same bits."""

import pickle
from functools import lru_cache, reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from identiformer.errors import ResultError
from identiformer.measures.corpus import MEASURES, State
from identiformer.runs.worker import Worker
from identiformer.texts import BLOCK
from tests.runs.tiny import texts

EXAMPLES = 6
NEEDS_DATA = ("self_contribution_by_tag",)
QUICK = {"faithfulness": {"maps": ("raw", "contribution"), "yardsticks": ("value_zeroing_head",)}}
"""Options of measures that would take long over a whole corpus."""
every_measure = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.shared) if name in NEEDS_DATA else name for name in MEASURES]
)
_models = []


@pytest.fixture(autouse=True)
def _model(tiny, request):
    _models[:] = [tiny]
    if request.node.get_closest_marker("shared"):
        request.getfixturevalue("shared")


@lru_cache
def states(name):
    """The state of each example, traced in one batch with the others."""
    worker = Worker(_models[0], (name,), **QUICK.get(name, {}))
    return [worker.measures[0].observe(observation) for observation in worker._observations(0, texts(EXAMPLES, longest=6))]


def merged(some_states):
    return reduce(State.merge, some_states, State.empty())


def same_bits(left, right):
    return left == right and pickle.dumps(left.totals) == pickle.dumps(right.totals)


@settings(max_examples=12)
@every_measure
@given(order=some.permutations(range(EXAMPLES)), cuts=some.tuples(some.integers(0, EXAMPLES), some.integers(0, EXAMPLES)))
def test_any_grouping_in_any_order_gives_the_same_bits(name, order, cuts):
    one, two = sorted(cuts)
    left, middle, right = (merged(states(name)[index] for index in part) for part in (order[:one], order[one:two], order[two:]))
    whole = merged(states(name))
    result = MEASURES[name].finalize(whole)
    for grouping in (left.merge(middle).merge(right), left.merge(middle.merge(right)), right.merge(left).merge(middle)):
        assert grouping == whole
    assert MEASURES[name].finalize(grouping).identical(result)


@every_measure
def test_empty_state_is_the_identity(name):
    whole = merged(states(name))
    assert same_bits(State.empty().merge(whole), whole.merge(State.empty()))
    assert whole.merge(State.empty()) == whole
    assert State.empty().merge(State.empty()) == State.empty()


@every_measure
def test_states_are_integers_of_fixed_size_and_picklable(name):
    one, all_of_them = states(name)[0], merged(states(name))
    assert {total.dtype for total in all_of_them.totals.values()} == {np.dtype(np.int64)}
    one_shape, shapes = ({key: total.shape for key, total in state.totals.items()} for state in (one, all_of_them))
    assert one_shape == {key: shapes[key] for key in one_shape}
    assert MEASURES[name].per_example or one_shape == shapes
    assert pickle.loads(pickle.dumps(all_of_them)) == all_of_them
    assert sum(total.nbytes for total in all_of_them.totals.values()) < 2_000_000


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["texts", "effective_attention", "attention_identifiability", "faithfulness"])
def test_any_shard_size_gives_the_same_bits(name, size):
    corpus = texts(2 * BLOCK + 5, longest=6)
    blocks = [(first, corpus[first : first + BLOCK]) for first in range(0, len(corpus), BLOCK)]
    worker = Worker(_models[0], (name,), **QUICK.get(name, {}))
    shards = [worker(blocks[index : index + size]).states[name] for index in range(0, len(blocks), size)]
    assert merged(shards) == whole_corpus(name)


@lru_cache
def whole_corpus(name):
    corpus = texts(2 * BLOCK + 5, longest=6)
    blocks = [(first, corpus[first : first + BLOCK]) for first in range(0, len(corpus), BLOCK)]
    return Worker(_models[0], (name,), **QUICK.get(name, {}))(blocks).states[name]


def test_states_of_different_models_are_not_added():
    with pytest.raises(ResultError, match="states of one model"):
        State({"a": np.zeros(3, np.int64)}).merge(State({"a": np.zeros(4, np.int64)}))


def test_overflowing_totals_are_rejected():
    with pytest.raises(ResultError, match=r"below 2\^62"):
        State({"a": np.array(2**61)}).merge(State({"a": np.array(2**61)}))
