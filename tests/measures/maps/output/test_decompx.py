"""DecompX of a model: its parts sum to hidden vectors and outputs, and without biases they are gradients of a frozen model."""

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps import MAPS
from identiformer.measures.maps.output.decomposition import _after_attention, hidden_parts
from identiformer.models.derivatives.relevance import relevance_rules
from tests.measures.maps.tiny import tiny_subject

CLASSES = "SequenceClassification"
MODELS = [("bert", CLASSES), ("bert", ""), ("roberta", CLASSES), ("electra", CLASSES), ("gpt2", "CausalLM"), ("gpt2", CLASSES)]


class _FrozenAttention(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        return output.detach() if getattr(func, "__name__", "") == "softmax" else output


def _with_random_biases(subject):
    for name, parameter in subject.model.network.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return subject


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_parts_sum_to_hidden_vectors_and_to_the_output(family, task):
    subject = _with_random_biases(tiny_subject(family, task))
    states = subject.model.backbone(**subject.batch.inputs).last_hidden_state[0]
    torch.testing.assert_close(hidden_parts(subject).sum(0), states, rtol=1e-9, atol=1e-9)
    assert MAPS["decompx"].compute(subject).sum().item() == pytest.approx(subject.target.unchanged, rel=1e-9)


@pytest.mark.parametrize(("family", "task"), MODELS)
def test_without_biases_parts_are_gradients_of_the_frozen_model(family, task):
    subject = tiny_subject(family, task)
    for name, parameter in subject.model.network.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
    function = subject.target_function
    change = function.no_change.requires_grad_()
    with torch.enable_grad(), relevance_rules(function.network), _FrozenAttention():
        value = subject.target.value(function.run(change).result)[0]
        (gradient,) = torch.autograd.grad(value, change)
    np.testing.assert_allclose(MAPS["decompx"].compute(subject), (function.x * gradient).sum(-1), rtol=1e-7, atol=1e-9)


def test_values_of_the_first_layer_keep_their_bias():
    subject = _with_random_biases(tiny_subject("bert"))
    layer, block = subject.layers[0], subject.blocks.blocks[0]
    subject.model.network.encoder.layer[0].attention.output.dense.bias.zero_()  # shares memory with the recorded block
    parts = torch.diag_embed(block.x.mT).permute(1, 2, 0)
    written = torch.einsum("hqk,hkv,hvd->kqd", layer.weights, layer.values, layer.projection)
    torch.testing.assert_close(_after_attention(parts, parts, layer, block, first=True), parts + written)


def test_the_last_token_of_a_causal_model_is_no_part_of_earlier_vectors():
    parts = hidden_parts(_with_random_biases(tiny_subject("gpt2")))
    assert not parts[-1, :-1].any()
    assert parts[-1, -1].any()


def test_gated_models_are_rejected():
    with pytest.raises(UnsupportedModelError, match="gated"):
        MAPS["decompx"].compute(tiny_subject("llama", "CausalLM"))
