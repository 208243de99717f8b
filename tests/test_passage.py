"""A passage computes each part once, for every thread, and never answers one request with the result of another."""

import pickle
import threading
from collections import Counter

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer import passage as module
from identiformer.errors import InputError
from identiformer.models import model as models
from identiformer.models import tracing as recorder
from tests.models.families import ENCODER_DECODERS, SERVED, build, each, word_tokenizer, words


@pytest.fixture
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture
def traces(monkeypatch):
    """How many forward passes were traced."""
    counted, trace_batch = Counter(), models.trace_batch

    def count(*arguments):
        counted["traces"] += 1
        return trace_batch(*arguments)

    monkeypatch.setattr(models, "trace_batch", count)
    return counted


def test_eight_threads_compute_each_part_once(model, traces):
    passage, found, barrier = idf.Passage.of(model, words(12)), [], threading.Barrier(8)

    def read():
        barrier.wait()
        found.append(idf.read(model, passage, certify=False))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert traces["traces"] == 1
    assert len(found) == 8
    assert all(reading.result.equals(found[0].result) for reading in found)


def test_functions_share_what_is_known_of_a_passage(model, traces):
    passage = idf.Passage.of(model, words(12))
    reading = idf.read(model, passage, certify=False)
    idf.token_attribution(model, passage, directions=2)
    idf.maps(model, passage, kinds=["raw", "contribution"])
    idf.sink_effects(model, passage, 2, 1)
    assert traces["traces"] == 1
    alone = idf.read(model, words(12), certify=False)
    assert traces["traces"] == 2
    assert alone.result.equals(reading.result)


def test_a_padded_trace_is_kept_as_it_is(model, traces):
    batched = model.trace([words(12), words(20)])[0]
    traces.clear()
    passage = idf.Passage.of(model, words(12), trace=batched)
    assert passage.trace is passage.recorded is batched
    reading = idf.read(model, passage, certify=False, maps=True)
    assert traces["traces"] == 0
    weights = np.stack([layer.weights.double().numpy() for layer in batched.stack().layers])
    np.testing.assert_array_equal(reading.result.weight, weights)


def test_a_request_is_never_answered_by_another(model):
    passage = idf.Passage.of(model, words(12))
    kept = passage.once("one", lambda: 1)
    assert (kept, passage.once("one", lambda: 2)) == (1, 1)
    assert passage.view(directions=64).once("one", lambda: 3) == 3
    assert passage.view(seed=5).once("one", lambda: 4) == 4
    assert passage.view(directions=16) is passage
    few, many = (idf.token_attribution(model, passage, directions=number).contribution for number in (2, 16))
    assert not few.equals(many)
    assert passage.traced("factored", rows=[3]).layer(1).rows == (3,)
    assert passage.traced("factored", rows=[5]).layer(1).rows == (5,)


def test_kinds_are_views_of_one_trace(traces):
    model = idf.load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    passage = idf.Passage.of(model, words(9), words(5))
    lengths = {
        kind: (len(view.stack.queries), len(view.stack.keys))
        for kind in ("encoder", "cross")
        for view in [passage.view(kind=kind)]
    }
    assert lengths["cross"] == (len(passage.view(kind="decoder").stack.queries), lengths["encoder"][1])
    assert traces["traces"] == 1


def test_changed_weights_are_an_error(model):
    passage = idf.Passage.of(model, words(12))
    _ = passage.trace
    with torch.no_grad():
        next(model.network.parameters()).mul_(1.5)
    with pytest.raises(InputError, match="but they changed; open the text again"):
        _ = passage.trace


def test_a_closed_passage_holds_nothing(model):
    passage = idf.Passage.of(model, words(12))
    _ = passage.trace
    passage.close()
    with pytest.raises(InputError, match="expected an open passage, got one that was closed"):
        _ = passage.trace


def test_results_beyond_the_budget_are_computed_again(model, monkeypatch):
    monkeypatch.setattr(module, "BUDGET", 10_000)
    passage, computed = idf.Passage.of(model, words(12)), []

    def part(name):
        return passage.once(name, lambda: computed.append(name) or torch.zeros(1000))

    trace = passage.trace
    for name in ("first", "second", "third", "second", "first"):
        part(name)
    assert computed == ["first", "second", "third", "first"]
    part("first")
    assert computed[-1] == "first"
    assert len(computed) == 4
    assert passage.trace is trace, "inputs and traces are never dropped"


def test_only_passages_and_traces_of_the_model_are_accepted(model):
    other = idf.load(build("llama", SERVED["llama"]), word_tokenizer())
    with pytest.raises(InputError, match="expected a passage of this model"):
        idf.read(other, idf.Passage.of(model, words(5)))
    with pytest.raises(InputError, match="expected a trace of this model"):
        idf.Passage.of(other, model.trace(words(5)))


@pytest.mark.parametrize("family", each(["bert", "llama", "gpt_oss", "gemma2", "gemma3_text", "t5"], {"gemma3_text"}))
def test_weights_computed_again_are_those_of_the_model_to_the_bit(family, monkeypatch):
    """Grouped heads, windows, soft caps and sinks; T5 adds a bias to its scores, and keeps its weights."""
    settings = SERVED[family] if family in SERVED else ENCODER_DECODERS[family]
    model = idf.load(build(family, settings), word_tokenizer())
    stored, passages = model.trace(words(20)), [idf.Passage.of(model, words(20))]
    _ = passages[0].trace
    monkeypatch.setattr(recorder, "STORED", 0)
    again = model.trace(words(20))
    for one, other in zip(stored.stack().layers, again.stack().layers, strict=True):
        assert isinstance(other.stored_weights, torch.Tensor) == (family == "t5")
        assert other.heads == one.heads
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(pickle.loads(pickle.dumps(other.head(1))).weights, one.weights[1])
    assert (again.stack().weights is None) == (family != "t5")
    passages.append(idf.Passage.of(model, words(20)))
    if family == "llama":
        first, second = (idf.read(model, passage, certify=False).result for passage in passages)
    else:  # without attribution, which differentiates the network and takes seconds
        first, second = (idf.attention_reading(passage.trace, certify=False) for passage in passages)
    for name, numbers in first.data_vars.items():
        np.testing.assert_array_equal(numbers, second[name], err_msg=str(name))


def test_a_pickled_head_carries_a_head(model):
    layer = model.trace(words(40)).layer(1).recorded()
    head = pickle.dumps(layer.head(2))
    assert len(head) < layer.weights.nbytes
    assert torch.equal(pickle.loads(head).values, layer.head(2).values)
