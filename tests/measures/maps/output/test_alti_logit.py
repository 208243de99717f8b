"""ALTI-Logit of a model, against the modules of the network."""

import numpy as np
import pytest
import torch

from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps import MAPS
from tests.measures.maps.tiny import tiny_subject

LM, CLASSES = "CausalLM", "SequenceClassification"


def _inputs_and_outputs(network, inputs):
    """The first input and the output of every module, by name."""
    states, hooks = {}, []
    for name, module in network.named_modules():

        def keep(_, arguments, output, name=name):
            states[name] = arguments[0] if arguments else None, output[0] if isinstance(output, tuple) else output

        hooks.append(module.register_forward_hook(keep))
    network(**inputs)
    for hook in hooks:
        hook.remove()
    return states


def test_attention_and_the_rest_sum_to_the_logit():
    subject = tiny_subject("gpt2", LM)
    network = subject.model.network
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    states = _inputs_and_outputs(network, subject.batch.inputs)
    last, norm = states["transformer.ln_f"][0][0, -1], network.transformer.ln_f
    unembedding = network.lm_head.weight[subject.target.index] - network.lm_head.weight.mean(0)

    def logit_of(vector):
        scale = (last.var(unbiased=False) + norm.eps).sqrt()
        return (((vector - vector.mean()) / scale * norm.weight) @ unembedding).item()

    rest = logit_of(states["transformer.h.0"][0][0, -1]) + (norm.bias @ unembedding).item()
    for number, block in enumerate(network.transformer.h):
        rest += logit_of(states[f"transformer.h.{number}.mlp"][1][0, -1]) + logit_of(block.attn.c_proj.bias)
    assert MAPS["alti_logit"].compute(subject).sum().item() + rest == pytest.approx(subject.target.unchanged, rel=1e-9)


@pytest.mark.parametrize(("family", "task"), [("gpt2", LM), ("llama", LM), ("llama", CLASSES), ("llama", "")])
def test_updates_are_traced_by_alti(family, task):
    subject = tiny_subject(family, task, tie_word_embeddings=False)
    network = subject.model.network
    positions = list(range(1, 7)) if not task else [7]
    readout = {
        LM: lambda: network.lm_head.weight[subject.target.index] - network.lm_head.weight.mean(0),
        CLASSES: lambda: network.score.weight[subject.target.index] - network.score.weight.mean(0),
        "": lambda: subject.target.direction,
    }[task]()
    norm = subject.blocks.final_norm
    alti, expected, rolled = MAPS["alti"].compute(subject), 0, torch.eye(8, dtype=torch.float64)
    for number, layer in enumerate(subject.layers):
        groups = layer.heads // len(layer.values)
        values = layer.values.repeat_interleave(groups, 0)
        written = torch.einsum("hqk,hkv,hvm->kqm", layer.weights, values, layer.projection)
        updates = (norm.linear(written) @ readout)[:, positions].mean(1)
        expected = expected + updates @ rolled
        rolled = alti[number] @ rolled
    np.testing.assert_allclose(MAPS["alti_logit"].compute(subject), expected, rtol=1e-6, atol=1e-9)


def test_models_with_norms_after_sums_are_rejected():
    with pytest.raises(UnsupportedModelError, match="a norm after every sum; use decompx"):
        MAPS["alti_logit"].compute(tiny_subject("bert", CLASSES))
