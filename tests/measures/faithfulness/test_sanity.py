"""Random weights: a map of attention changes, one of distances does not, and an array has no kind to compute again."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

from identiformer.errors import InputError
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.faithfulness.evidence import SEEDS
from identiformer.measures.maps import MAPS, MapKind
from identiformer.models.interventions.random_weights import with_random_weights
from identiformer.passage import Passage
from identiformer.texts import PASSAGE, Example
from tests.measures.maps.tiny import tiny_subject


def _kind(compute, explains_output=False):
    return MapKind("mine", "mine", "", "", "0", compute, explains_output=explains_output)


def _by_distance(passage):
    count = len(passage.tokens)
    return -(torch.arange(count)[:, None] - torch.arange(count)).abs().double().expand(len(passage.layers), -1, -1)


def _attentions(model, passage):
    """The mean over heads of the attention that a network returns itself: of the model, and with random weights."""
    maps = []
    for each in (model, *(with_random_weights(model, seed) for seed in SEEDS)):
        network = copy.deepcopy(each.backbone)
        network.set_attn_implementation("eager")
        with torch.no_grad():
            attentions = network(**passage.batch.inputs, output_attentions=True).attentions
        maps.append(torch.cat(attentions).double().mean(1).numpy())
    return maps


def _rank_correlation(first, second):
    return abs(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def test_attention_of_a_trained_model_changes_with_its_weights(minilm):
    passage = Passage.of(minilm, Example(PASSAGE[:400]))
    yardstick = YARDSTICKS["random_weights"]
    truth = yardstick.truth(passage)
    change = yardstick.judge(truth, MAPS["raw"].compute(passage), MAPS["raw"])
    own, *others = _attentions(minilm, passage)
    rows = [
        [[_rank_correlation(*pair) for pair in zip(*layers, strict=True)] for layers in zip(own, other, strict=True)]
        for other in others
    ]
    np.testing.assert_allclose(change, 1 - np.mean(rows, (0, 2)), atol=1e-6)
    assert change.min() > 0.7
    # Two random models have maps of their own.
    assert not torch.equal(*(MAPS["raw"].compute(other) for other in truth))


def test_a_map_that_ignores_the_weights_fails():
    passage = tiny_subject("bert")
    yardstick = YARDSTICKS["random_weights"]
    change = yardstick.judge(yardstick.truth(passage), _by_distance(passage), _kind(_by_distance))
    torch.testing.assert_close(change, torch.zeros(2).double(), atol=1e-12, rtol=0)


def test_explanations_are_compared_over_words():
    passage = tiny_subject("bert")
    yardstick = YARDSTICKS["random_weights_output"]
    constant = _kind(lambda passage: torch.arange(len(passage.tokens)).double(), True)
    assert float(yardstick.judge(yardstick.truth(passage), constant.compute(passage), constant)) == pytest.approx(0)
    received = _kind(lambda passage: MAPS["raw"].compute(passage)[-1].mean(0), True)
    change = yardstick.judge(yardstick.truth(passage), received.compute(passage), received)
    own, *others = (each[-1].mean(0)[1:-1] for each in _attentions(passage.model, passage))
    assert float(change) == pytest.approx(1 - np.mean([_rank_correlation(own, other) for other in others]), abs=1e-9)
    assert change > 0.05


def test_arrays_cannot_be_computed_again():
    passage = tiny_subject("bert")
    with pytest.raises(InputError, match="judges maps by name"):
        YARDSTICKS["random_weights"].judge(YARDSTICKS["random_weights"].truth(passage), torch.zeros(2, 8, 8).double())
