"""Effects of weights against patched runs of the untouched model, and their intervals."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError
from identiformer.models.interventions.patching import patched_states
from identiformer.models.replica import replica_of
from tests.measures.maps.tiny import tiny_subject
from tests.models.families import words

TEXT = words(12)
STEP = 0.01


def without(passage, layer, head, query, key, renormalize=False, share=1.0):
    """The output of a patched run without one weight, or on the way there."""
    original = passage.trace.layer(layer).recorded().weights[head].double()
    weights = original.clone()
    weights[query, key] = 0
    if renormalize:
        weights[query] /= weights[query].sum()
    weights = original + share * (weights - original)
    replica, batch = replica_of(passage.model.network), passage.batch
    with torch.no_grad():
        return patched_states(replica, lambda: passage.model.forward(replica, batch.inputs), range(9), {(layer, head): weights})[
            "output"
        ]


def divergence(before, after):
    before, after = before.log_softmax(-1), after.log_softmax(-1)
    return float((before.exp() * (before - after)).sum())


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_exact_effects_are_those_of_patched_runs(family):
    passage = tiny_subject(family, "CausalLM", TEXT)
    effects = idf.weight_effects(passage.model, passage, largest=8, calibrate=False)
    replica = replica_of(passage.model.network)
    with torch.no_grad():
        logits = passage.model.forward(replica, passage.batch.inputs).logits[0]
    layers, heads, rows, keys = np.nonzero(effects.exact.notnull().values)
    assert len(layers) == 8
    for layer, head, row, key in zip(layers, heads, rows, keys, strict=True):
        expected = divergence(logits, without(passage, int(layer) + 1, int(head), int(row), int(key))[0])
        assert float(effects.exact[layer, head, row, key]) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("renormalize", [False, True])
def test_first_order_effects_are_derivatives_towards_the_removal(renormalize):
    passage = tiny_subject("llama", "CausalLM", TEXT)
    effects = idf.weight_effects(passage.model, passage, target="next", largest=0, calibrate=False)
    name = "effect_renormalized" if renormalize else "effect"
    with torch.no_grad():
        logits = passage.model.forward(replica_of(passage.model.network), passage.batch.inputs).logits[0, -1].log_softmax(-1)
    token = int(logits.argmax())
    assert passage.objective("next").probability == pytest.approx(float(logits[token].exp()), rel=1e-5)
    generator, query = np.random.default_rng(0), effects.sizes["query"] - 1
    places = np.argwhere(effects.weight.values[..., -1, :] > 0.02)
    exact, first = [], []
    for layer, head, key in places[generator.permutation(len(places))[:20]].tolist():
        ends = [
            without(passage, layer + 1, head, query, key, renormalize, share)[0, -1].log_softmax(-1)[token]
            for share in (STEP, -STEP)
        ]
        exact.append(float(ends[1] - ends[0]) / (2 * STEP))
        first.append(float(effects[name][layer, head, query, key]))
    np.testing.assert_allclose(first, exact, rtol=0.01, atol=2e-3 * np.abs(exact).max())


def test_all_directions_of_an_embedding_leave_no_sampling_error():
    passage = tiny_subject("bert", "", TEXT)
    objective = passage.objective()
    with torch.no_grad():
        unchanged = objective.outputs(passage.model.forward(replica_of(passage.model.network), passage.batch.inputs), 0)[0, 0]
    effects = idf.weight_effects(passage.model, passage, draws=len(unchanged) - 1, largest=0, calibrate=False).effect
    for layer, head, query, key in ((1, 0, 2, 3), (1, 3, 0, 5), (2, 1, 4, 4), (2, 2, 7, 0)):
        changed = without(passage, layer, head, query, key, share=0.01)[0].mean(0)
        expected = float(1 - torch.nn.functional.cosine_similarity(unchanged, changed, dim=0)) / 0.01**2
        # Gradients of several draws are kept in bfloat16.
        assert float(effects.sel(layer=layer, head=head, query=query, key=key)) == pytest.approx(expected, rel=0.03)


def test_intervals_cover_exact_effects_of_other_weights():
    passage = tiny_subject("llama", "CausalLM", words(24))
    effects = idf.weight_effects(passage.model, passage, target="next", largest=0)
    every = idf.weight_effects(passage.model, passage, target="next", largest=5000, calibrate=False).exact.values
    known = np.isfinite(every) & np.isfinite(effects.effect_low.values)
    inside = (effects.effect_low.values <= every) & (every <= effects.effect_high.values)
    rounding = np.abs(every) <= float(effects.rounding)
    assert (inside | rounding)[known].mean() > 0.92
    width = (effects.effect_high - effects.effect_low).values[known] / np.abs(effects.effect.values[known])
    assert np.median(width) < 5  # in a random model with large weights, hardly anything is linear


def test_rows_without_a_choice_and_hidden_keys_have_no_effect():
    passage = tiny_subject("llama", "CausalLM", TEXT)
    effects = idf.weight_effects(passage.model, passage, target="next", largest=10, calibrate=False)
    hidden = ~passage.visible.numpy()[:, None].repeat(4, 1)
    hidden[:, :, 0] = True
    assert effects.effect.isnull().values[hidden].all()
    assert effects.effect.notnull().values[~hidden].all()
    assert effects.exact.isnull().values[hidden].all()


def test_targets():
    passage = tiny_subject("llama", "CausalLM", TEXT)
    with torch.no_grad():
        logits = passage.model.forward(replica_of(passage.model.network), passage.batch.inputs).logits[0, -1]
    ids = [passage.model.tokenizer.convert_tokens_to_ids(word) for word in ("w3", "w8")]
    number = passage.objective(("w3", "w8"))
    result = passage.model.forward(replica_of(passage.model.network), passage.batch.inputs)
    assert float(number.outputs(result, 0)[0]) == pytest.approx(float(logits[ids[0]] - logits[ids[1]]), rel=1e-6)
    token = passage.objective("w8")
    assert float(token.outputs(result, 0)[0]) == pytest.approx(float(logits.log_softmax(-1)[ids[1]]), rel=1e-6)
    assert token.prediction == "w8"
    classes = tiny_subject("bert", "SequenceClassification", TEXT).objective("LABEL_1")
    assert classes.title == "the log-probability of class LABEL_1"


BAD = [
    ("llama", "CausalLM", "w3000", "expected a target that is one token, got 'w3000', which is .*; the nearest token is 'w30'"),
    ("llama", "CausalLM", 2, "expected an answer of the model for the target 2"),
    ("llama", "CausalLM", "hidden", "expected a model without a head for the target 'hidden'"),
    ("bert", "", "next", "expected a model that predicts tokens or classes for the target 'next', got BertModel"),
    ("bert", "", ("w1", "w2"), "expected a model that predicts tokens or classes"),
    ("bert", "SequenceClassification", "good", "expected one of the classes LABEL_0, LABEL_1 as target, got 'good'"),
]


@pytest.mark.parametrize(("family", "task", "target", "message"), BAD)
def test_targets_that_the_model_lacks(family, task, target, message):
    passage = tiny_subject(family, task, TEXT)
    with pytest.raises(InputError, match=message):
        idf.weight_effects(passage.model, passage, target=target)
