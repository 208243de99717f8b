"""Running a model with patched attention: what changes, what does not, and what is rejected."""

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

import identiformer as idf
from identiformer.errors import InputError
from identiformer.models.inputs import inputs_of_trace
from identiformer.support.tiny_models import tiny_model
from tests.models.families import ENCODER_DECODERS, SERVED, SMALL, build, each, word_tokenizer, words

FAMILIES = sorted(SERVED)


def tiny(family):
    return idf.load(build(family, {**SERVED, **ENCODER_DECODERS}[family]), word_tokenizer())


def shifted(trace, layer, head, kind=None):
    """All attention of each row on its last visible key."""
    record = trace.layer(layer, kind)
    weights = torch.zeros_like(record.weights[head])
    weights[torch.arange(len(weights)), record.visible.stop - 1] = 1
    return weights


WINDOWED = {"mistral", "gemma3_text", "modernbert"}  # at layer 2, with windows too narrow to move in


@pytest.mark.parametrize("family", each(sorted(set(FAMILIES) - WINDOWED)))
def test_an_alternative_with_the_same_output_changes_little(family):
    model = tiny(family)
    trace = model.trace(words(30))
    result = idf.ambiguity(trace, 2, 1, top=1)
    far = result.total_variation.sel(alternative="farthest").values >= 0.1
    assert far.sum() >= 5
    rows = np.where(far[:, None], result.alternatives.sel(alternative="farthest").values, result.raw.values)
    output = model.rerun(trace, {(2, 1): rows}).output
    assert output.patched < output.control / 20


def test_a_patched_head_changes_the_model_as_its_projected_output_does():
    """An oracle that does not use the interface: the head's slice of the output projection moves the attention's output."""
    model = tiny("bert")
    trace = model.trace(words(9))
    layer = trace.layer(2)
    weights = shifted(trace, 2, 3)
    moved = (weights - layer.weights[3]).double() @ layer.values[3].double() @ layer.projection[3].double()
    network = model.network
    attention = network.encoder.layer[1].attention.output.dense
    inputs = inputs_of_trace(model, trace).inputs
    hook = attention.register_forward_hook(lambda module, arguments, result: result + moved.float())
    with torch.no_grad():
        expected = network.eval()(**inputs).last_hidden_state
        hook.remove()
        before = network(**inputs).last_hidden_state
    result = model.rerun(trace, {(2, 3): weights})
    assert result.output.patched == pytest.approx(float((expected - before).abs().max()), abs=2e-6)


def test_a_shared_module_is_patched_at_one_layer_only():
    network = build("albert", {**SERVED["albert"], "num_hidden_layers": 3})
    model = idf.load(network, word_tokenizer())
    trace = model.trace(words(9))
    third = model.rerun(trace, {(3, 0): shifted(trace, 3, 0)})
    assert [change.where for change in third.changes] == ["layer 3", "output"]
    assert third.output.patched > 1e-5
    second = model.rerun(trace, {(2, 0): shifted(trace, 2, 0)})
    assert [change.where for change in second.changes] == ["layer 2", "layer 3", "output"]
    assert second.changes[0].patched > 1e-5


@pytest.mark.parametrize("family", sorted(ENCODER_DECODERS))
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_attention_types_of_an_encoder_decoder(family, kind):
    model = tiny(family)
    trace = model.trace(words(9), words(5))
    result = model.rerun(trace, {(2, 1): shifted(trace, 2, 1, kind)}, kind=kind)
    assert result.changes[0].where == ("encoder layer 2" if kind == "encoder" else "decoder layer 2")
    assert result.changes[-2].where == "decoder layer 2"
    assert result.output.patched > 1e-6
    assert model.rerun(trace, {(2, 1): trace.layer(2, kind).weights[1]}, kind=kind).output.patched <= 1e-6


def test_the_output_of_a_model_with_a_task_head_is_its_logits():
    torch.manual_seed(0)
    network = AutoModelForSequenceClassification.from_config(AutoConfig.for_model("bert", **SMALL, num_labels=3))
    model = idf.load(network, word_tokenizer())
    trace = model.trace(words(9))
    assert model.rerun(trace, {(1, 0): shifted(trace, 1, 0)}).output.scale < 2


def test_the_control_has_the_norm_of_the_patch_and_sums_to_zero():
    from identiformer.models.interventions.patching import random_change

    trace = tiny("mistral").trace(words(12))
    layer = trace.layer(1)
    original, other = layer.weights[0].double(), shifted(trace, 1, 0).double()
    control = random_change(other, original, layer, torch.Generator().manual_seed(3))
    single_key = layer.visible.counts == 1
    np.testing.assert_allclose(
        (control - original).norm(dim=-1)[~single_key], (other - original).norm(dim=-1)[~single_key], rtol=1e-9
    )
    np.testing.assert_allclose((control - original).sum(-1), 0, atol=1e-12)
    assert (control[~layer.visible.dense()] == 0).all()


def test_the_model_is_unchanged_also_after_an_error(monkeypatch):
    model = tiny("bert")
    trace = model.trace(words(9))
    model.network.train()
    before = model.network.config._attn_implementation
    with pytest.raises(InputError):
        model.rerun(trace, {(1, 0): torch.zeros(2, 2)})
    monkeypatch.setattr(model, "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.rerun(trace, {(1, 0): shifted(trace, 1, 0)})
    assert model.network.config._attn_implementation == before
    assert model.network.training


def bad(change):
    def make(trace):
        weights = trace.layer(1).weights[0].clone()
        change(weights)
        return {(1, 0): weights}

    return make


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        (lambda trace: {}, "at least one head"),
        (lambda trace: {(3, 0): trace.layer(1).weights[0]}, "layer from 1 to 2, got 3"),
        (lambda trace: {(1, 9): trace.layer(1).weights[0]}, "head from 0 to 3, got 9"),
        (lambda trace: {(1, 0): trace.layer(1).weights[0][:3]}, "expected weights of shape"),
        (bad(lambda weights: weights[0].fill_(float("nan"))), "finite"),
        (bad(lambda weights: weights[4].sub_(0.5)), "nonnegative.*allow_non_simplex"),
        (bad(lambda weights: weights.mul_(0.5)), "sum to.*allow_non_simplex"),
        (bad(lambda weights: weights[0].copy_(torch.eye(len(weights))[-1])), "cannot see.*allow_non_simplex"),
    ],
)
def test_weights_that_are_not_attention_are_rejected(patches, message):
    model = tiny("llama")
    trace = model.trace(words(9))
    with pytest.raises(InputError, match=message):
        model.rerun(trace, patches(trace))


def test_effective_attention_can_be_run():
    model = tiny("llama")
    trace = model.trace(words(30))
    effective = idf.effective_attention(trace, layers=[1]).effective.values[0]
    with pytest.raises(InputError, match="allow_non_simplex"):
        model.rerun(trace, {(1, 0): effective[0]})
    result = model.rerun(trace, {(1, head): effective[head] for head in range(4)}, allow_non_simplex=True)
    assert result.output.patched < 1e-4 * result.output.scale


def test_a_trace_of_another_model_is_rejected():
    trace = tiny("bert").trace(words(9))
    with pytest.raises(InputError, match="trace of this model"):
        tiny("roberta").rerun(trace, {(1, 0): trace.layer(1).weights[0]})


@pytest.mark.parametrize("family", sorted(ENCODER_DECODERS))
def test_the_encoder_of_an_encoder_decoder_can_be_patched_alone(family):
    model = tiny(family)
    trace = model.trace(words(9))
    result = model.rerun(trace, {(1, 0): shifted(trace, 1, 0)})
    assert [change.where for change in result.changes] == ["layer 1", "layer 2", "output"]


def test_an_image_is_run_again_from_its_pixels():
    model = idf.load(tiny_model("dinov3_vit"))
    pixels = torch.randn(3, 32, 32)
    trace = model.trace(pixels)
    original = {(1, 0): trace.layer(1).weights[0]}
    assert model.rerun(trace, original, tensor=pixels).output.patched <= 1e-5
    assert model.rerun(trace, {(1, 0): shifted(trace, 1, 0)}, tensor=pixels).output.patched > 1e-4
    with pytest.raises(InputError, match="tensor="):
        model.rerun(trace, original)
    with pytest.raises(InputError, match="got another one"):
        model.rerun(trace, original, tensor=pixels + 1)
