"""Random weights: a map of attention changes, one of distances does not, and an array has no kind to compute again."""

import pytest
import torch

from identiformer.errors import InputError
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.maps import MAPS, MapKind
from identiformer.passage import Passage
from identiformer.texts import PASSAGE, Example
from tests.measures.maps.tiny import tiny_subject


def _kind(compute, explains_output=False):
    return MapKind("mine", "mine", "", "", "0", compute, explains_output=explains_output)


def _by_distance(passage):
    count = len(passage.tokens)
    return -(torch.arange(count)[:, None] - torch.arange(count)).abs().double().expand(len(passage.layers), -1, -1)


def test_attention_of_a_trained_model_changes_with_its_weights(minilm):
    passage = Passage.of(minilm, Example(PASSAGE[:400]))
    yardstick = YARDSTICKS["random_weights"]
    truth = yardstick.truth(passage)
    change = yardstick.judge(truth, MAPS["raw"].compute(passage), MAPS["raw"])
    assert change.shape == (6,)
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
    assert yardstick.judge(yardstick.truth(passage), received.compute(passage), received) > 0.05


def test_arrays_cannot_be_computed_again():
    passage = tiny_subject("bert")
    with pytest.raises(InputError, match="judges maps by name"):
        YARDSTICKS["random_weights"].judge(YARDSTICKS["random_weights"].truth(passage), torch.zeros(2, 8, 8).double())
