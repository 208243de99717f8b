"""Gradient × attention of a model, against finite differences of patched attention."""

import pytest
import torch

from identiformer.measures.maps import MAPS
from identiformer.models.attention.interface import WEIGHTS, recording
from tests.measures.maps.tiny import tiny_subject


def family_of(subject):
    return subject.model.backbone.config.model_type


def slope(subject, layer, weights, change):
    """The derivative of the target along a change of one layer's weights, by patched runs."""
    model, target, step = (
        subject.model,
        subject.target,
        1e-5 if family_of(subject) != "llama" else 1e-2,
    )  # Llama's norms compute in float32
    values = []
    for factor in (step, -step):
        calls = []

        def patch(call, factor=factor, calls=calls):
            calls.append(call)
            if len(calls) - 1 != layer:
                return None
            values = call.value.repeat_interleave(call.heads // call.value.shape[1], 1)
            return ((weights + factor * change)[None] @ values).transpose(1, 2)

        replica = target.replica(model)
        with recording(replica, WEIGHTS, patch):
            values.append(target.value(model.forward(replica, subject.batch.inputs)).item())
    return (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize(("family", "task"), [("bert", "SequenceClassification"), ("llama", "CausalLM")])
def test_relevance_of_the_last_layer_and_the_first(family, task):
    subject = tiny_subject(family, task, text="w3")
    contributions = []
    for layer, record in enumerate(subject.layers):
        slopes = torch.zeros_like(record.weights)
        for head, query, key in record.weights.nonzero().tolist():
            change = torch.zeros_like(record.weights)
            change[head, query, key] = 1
            slopes[head, query, key] = slope(subject, layer, record.weights, change)
        contributions.append((slopes * record.weights).relu().mean(0))
    first, second = contributions
    expected = (first + second + second @ first)[list(subject.target.positions)].mean(0)
    torch.testing.assert_close(MAPS["gradient_attention"].compute(subject), expected, atol=1e-4, rtol=1e-3)
