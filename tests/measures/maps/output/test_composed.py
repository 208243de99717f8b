"""Rollout and flow of the maps of a model."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.equations.maps.rollout import attention_flow
from identiformer.errors import InputError
from tests.measures.maps.tiny import tiny_subject


def _mixing(subject):
    weights = torch.stack([layer.weights.mean(0) for layer in subject.layers])
    return (weights + torch.eye(weights.shape[-1])) / 2


@pytest.mark.parametrize(("family", "task"), [("bert", ""), ("bert", "SequenceClassification"), ("gpt2", "CausalLM")])
def test_rollout_and_flow_of_raw_attention(family, task):
    subject = tiny_subject(family, task)
    first, second = mixing = _mixing(subject)
    result = idf.maps(subject.model, subject.example.text, kinds=["rollout:raw", "flow:raw"])
    positions = {"": slice(1, 7), "SequenceClassification": slice(0, 1), "CausalLM": slice(7, 8)}[task]
    np.testing.assert_allclose(result.importance.sel(explanation="rollout:raw"), (second @ first)[positions].mean(0), rtol=1e-10)
    flow = attention_flow(mixing, tuple(range(8))[positions])
    np.testing.assert_allclose(result.importance.sel(explanation="flow:raw"), flow, rtol=1e-6)


def test_signed_maps_are_combined_by_size():
    subject = tiny_subject("bert")
    result = idf.maps(subject.model, subject.example.text, kinds=["contribution", "rollout:contribution"])
    sizes = np.abs(result.score.values[0])
    first, second = (sizes / sizes.sum(-1, keepdims=True) + np.eye(8)) / 2
    np.testing.assert_allclose(result.importance.values[0], (second @ first)[1:7].mean(0), rtol=1e-10)


@pytest.mark.parametrize("name", ["rollout:no such map", "sum:raw", "rollout:rollout:raw"])
def test_unknown_combinations_are_rejected(tiny, name):
    with pytest.raises(InputError, match=r"rollout:NAME or flow:NAME of a map of layers, got "):
        idf.maps(tiny, "w1", kinds=[name])


def test_the_residual_connection_is_added_once():
    subject = tiny_subject("bert")
    result = idf.maps(subject.model, subject.example.text, kinds=["rollout:raw", "rollout:raw_residual"])
    np.testing.assert_allclose(result.importance[1], result.importance[0], rtol=1e-10)
