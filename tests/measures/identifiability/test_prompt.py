"""Prompts recovered from hidden states: exactly, whatever the family and layer, or with a reason why not."""

import numpy as np
import pytest
import torch
import transformers

from identiformer.equations.identifiability.candidates import candidate_scores
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures import recover_prompt
from identiformer.measures.identifiability import prompt as module
from identiformer.models import load
from identiformer.models.hidden_states.continuation import Continuation
from tests.models.families import SERVED, build, word_tokenizer

IDS = [11, 47, 47, 90, 5, 62]
FAMILIES = {
    "llama": "LlamaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "mistral": "MistralForCausalLM",
}


def causal(family, seed=0):
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(family, **SERVED[family], initializer_range=0.2)
    return load(getattr(transformers, FAMILIES[family])(config).eval(), word_tokenizer())


def states_of(model, ids=IDS):
    with torch.no_grad():
        return [state[0] for state in model.network(torch.tensor([ids]), output_hidden_states=True).hidden_states]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_holds_the_prompt(family):
    model = causal(family)
    before = {name: weights.clone() for name, weights in model.network.state_dict().items()}
    for layer, states in enumerate(states_of(model)):
        recovered = recover_prompt(model, states, layer)
        assert recovered.ids.tolist() == IDS
        assert recovered.decided.all()
        assert (recovered.margin > 10).all()
        assert (recovered.distance <= recovered.noise).all()
        assert recovered.text == model.tokenizer.decode(IDS)
        assert (recovered.tried <= 100).all()
    assert all(torch.equal(weights, before[name]) for name, weights in model.network.state_dict().items())


def test_arrays_of_numpy_are_taken():
    model = causal("llama")
    assert recover_prompt(model, states_of(model)[1].numpy(), 1).ids.tolist() == IDS


def test_two_tokens_with_one_state_are_not_guessed():
    model = causal("llama")
    with torch.no_grad():
        model.network.get_input_embeddings().weight[48] = model.network.get_input_embeddings().weight[47]
    recovered = recover_prompt(model, states_of(model)[2], 2)
    assert recovered.ids.tolist() == [11, *[-1] * 5]
    assert recovered.decided.tolist() == [True, *[False] * 5]
    assert recovered.margin[1] < 1
    assert np.isnan(recovered.distance[2:]).all()


def test_states_of_another_layer_model_or_start_are_rejected():
    model = causal("llama")
    states = states_of(model)
    for wrong, layer, position in [(states[1], 2, 0), (states_of(causal("llama", 1))[1], 1, 0), (states[1][1:], 1, 0)]:
        with pytest.raises(InputError, match=f"no token .* that of position {position}: .* check the model, the layer"):
            recover_prompt(model, wrong, layer)
    changed = states[1].clone()
    changed[3] += 0.1
    with pytest.raises(InputError, match="position 3"):
        recover_prompt(model, changed, 1)


def test_malformed_states_are_rejected():
    model = causal("llama")
    states = states_of(model)[1]
    for wrong, layer, named in [
        (states[None], 1, r"\(position 32\), got float32 \(1, 6, 32\)"),
        (states[:, :31], 1, r"got float32 \(6, 31\)"),
        (states.long(), 1, "got int64"),
        (states, 3, "from 0, the embeddings, to 2, got 3"),
        (states[:0], 1, "at least one token"),
        (torch.full_like(states, torch.nan), 1, "finite"),
        (states.repeat(20, 1), 1, "at most 64 positions"),
    ]:
        with pytest.raises(InputError, match=named):
            recover_prompt(model, wrong, layer)
    with pytest.raises(UnsupportedModelError, match="causal language model with its head, got BertModel"):
        recover_prompt(load(build("bert", SERVED["bert"]), word_tokenizer()), states, 1)


def test_half_precision_has_more_noise():
    model = causal("llama")
    states = states_of(model)[1]
    rough = recover_prompt(model, states.bfloat16(), 1)
    assert (rough.noise > 1000 * recover_prompt(model, states, 1).noise).all()


@pytest.mark.parametrize("width", [4, 20])  # fewer and more than the tried tokens
def test_scores_are_those_of_a_regression_written_out(width):
    generator = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(30, width, generator=generator), dim=-1)
    tried = torch.arange(12)
    states = features[tried] @ torch.randn(width, 6, generator=generator) + 0.05 * torch.randn(12, 6, generator=generator)
    states[:, 0] *= 1000  # as a few coordinates of real models are
    target, prior = torch.randn(6, generator=generator), torch.randn(30, generator=generator)

    def fit(rows):
        x, y = features[rows].double(), states[rows].double()
        scale = (x - x.mean(0)).square().sum(1).mean() if len(rows) == 12 else full_scale
        inner = (x - x.mean(0)).T @ (x - x.mean(0)) + module_ridge * scale * torch.eye(width)
        return torch.linalg.solve(inner, (x - x.mean(0)).T @ (y - y.mean(0))), x.mean(0), y.mean(0), scale

    module_ridge = 1e-2
    weights, x_mean, y_mean, full_scale = fit(tried)
    left_out = []
    for one in tried:
        others = tried[tried != one]
        some, x_some, y_some, _ = fit(others)
        left_out.append(states[one].double() - y_some - (features[one].double() - x_some) @ some)
    unit = torch.stack(left_out).square().mean(0).sqrt()
    residuals = torch.stack(left_out) / unit
    spread = residuals.T @ residuals / 12
    dimensions, variance = spread.trace() ** 2 / (spread @ spread).trace(), spread.trace()
    distance = ((target.double() - y_mean - (features.double() - x_mean) @ weights) / unit).square().sum(-1)
    expected = prior.double() - dimensions * distance / (2 * variance)
    scores = candidate_scores(prior, features, tried, states, target)
    torch.testing.assert_close(scores[12:], expected[12:], rtol=1e-3, atol=1e-3)
    assert torch.isinf(scores[:12]).all()


def test_the_first_token_is_tried_in_the_order_expected_after_special_tokens(monkeypatch):
    model, batches = causal("llama"), []
    run = Continuation.states
    monkeypatch.setattr(Continuation, "states", lambda self, tokens: batches.append(tokens.tolist()) or run(self, tokens))
    recover_prompt(model, states_of(model)[1], 1)
    special = model.tokenizer.all_special_ids
    with torch.no_grad():
        after = [model.network(torch.tensor([[token]])).logits[0, -1].softmax(-1) for token in special]
    assert set(batches[0]) == set(sum(after).topk(module.FIRST_BATCH).indices.tolist())


def test_predicted_states_save_candidates(monkeypatch):
    """Without the prediction, more candidates are run."""
    model = causal("gpt2")
    states = states_of(model)[1]
    monkeypatch.setattr(module, "FIRST_BATCH", 4)
    monkeypatch.setattr(module, "LARGEST_BATCH", 4)
    tried = recover_prompt(model, states, 1).tried.sum()
    monkeypatch.setattr(module, "candidate_scores", lambda prior, *_: prior.double().clone())
    assert tried < 0.7 * recover_prompt(model, states, 1).tried.sum()
