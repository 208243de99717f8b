"""What generated tokens drew on, against gradients of the untouched network on the text up to each token."""

import weakref
from functools import partial

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError
from identiformer.models import load
from identiformer.models.blocks.recording import record_blocks
from identiformer.models.derivatives.input_function import differentiable_run
from tests.measures.maps.tiny import TEXT, tiny_network
from tests.models.families import word_tokenizer

FAMILIES = ["llama", "qwen3"]
# Recorded attention has its softmax in float32 also in a model of float64, hence tolerances of 1e-5.


def _model(family):
    return load(tiny_network(family, "CausalLM"), word_tokenizer())


@pytest.fixture(scope="module")
def model():
    return _model("llama")


@pytest.fixture(scope="module")
def answer(model):
    return model.generate(TEXT, max_new_tokens=3)


def _before(answer, step):
    """The embeddings of all tokens before a generated one, and its id."""
    token = answer.start + step
    ids = torch.tensor([answer.tokens.ids[:token]])
    return answer.model.network.get_input_embeddings()(ids).detach().requires_grad_(), answer.tokens.ids[token]


def _output(answer, embeddings, token, output):
    logits = answer.model.network(inputs_embeds=embeddings).logits[0, -1]
    return logits[token] - logits.mean() if output == "logit" else logits.softmax(-1)[token]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("output", ["logit", "probability"])
def test_gradient_times_input_is_that_of_the_text_before_each_token(family, output):
    model = _model(family)
    answer = model.generate(TEXT, max_new_tokens=3)
    result = idf.answer_attribution(model, answer, method="gradient_times_input", output=output)
    for step in range(3):
        embeddings, token = _before(answer, step)
        value = _output(answer, embeddings, token, output)
        (gradient,) = torch.autograd.grad(value, embeddings)
        expected = (gradient * embeddings).sum(-1)[0].detach()
        row = result.sel(step=step)
        np.testing.assert_allclose(row.attribution[: len(expected)], expected, rtol=1e-5, atol=1e-5)
        assert not row.attribution[len(expected) :].any()
        np.testing.assert_allclose(row.share[: len(expected)], expected.abs() / expected.abs().sum(), rtol=1e-5, atol=1e-5)
        assert float(row.value) == pytest.approx(value.item())
        assert (int(row.token_position), int(row.predicted_at)) == (len(expected), len(expected) - 1)
    if output == "probability":
        np.testing.assert_allclose(result.value, result.probability, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_a_long_answer_pass_through_a_fused_kernel(family, monkeypatch):
    model = _model(family)
    answer = model.generate(TEXT, max_new_tokens=3)
    expected = idf.answer_attribution(model, answer, method="gradient_times_input").attribution
    monkeypatch.setattr(model, "memory", 0)
    monkeypatch.setattr("identiformer.models.derivatives.input_function.WEIGHTS", "not to be used")
    # The input vectors are located by a run without gradients, which holds one layer at a time.
    monkeypatch.setattr("identiformer.models.derivatives.input_site.differentiable_run", partial(differentiable_run, fused=True))
    np.testing.assert_allclose(idf.answer_attribution(model, answer).attribution, expected, rtol=1e-5, atol=1e-5)


def test_the_hidden_states_of_one_token_are_in_memory_at_a_time(model, answer, monkeypatch):
    """Those of 60 tokens after a prompt of 450 take 47 GB in smollm2."""
    recorded, held = [], []

    def record(*arguments, **options):
        held.append(sum(blocks() is not None for blocks in recorded))
        blocks = record_blocks(*arguments, **options)
        recorded.append(weakref.ref(blocks))
        return blocks

    monkeypatch.setattr("identiformer.passage.record_blocks", record)
    idf.answer_attribution(model, answer)
    assert held == [0]  # once for all tokens


@pytest.mark.parametrize(("family", "best"), [("llama", "attnlrp"), ("gpt_neox", "gradient_attention")])
def test_the_default_is_the_best_tested_explanation_that_the_model_supports(family, best):
    model = _model(family)
    answer = model.generate(TEXT, max_new_tokens=2)
    result = idf.answer_attribution(model, answer)
    assert result.equals(idf.answer_attribution(model, answer, method=best))
    assert f'"method": "{best}"' in result.attrs["settings"]
    of_probabilities = idf.answer_attribution(model, answer, output="probability")
    assert '"method": "gradient_times_input"' in of_probabilities.attrs["settings"]


def test_hidden_token_attribution_is_that_of_the_last_vector_before_each_token(model, answer):
    exact = idf.answer_attribution(model, answer, method="token_attribution_last", exact=True)
    estimated = idf.answer_attribution(model, answer, method="token_attribution_last", directions=16)
    for step in range(3):
        embeddings, _ = _before(answer, step)
        last = lambda vectors: model.network.model(inputs_embeds=vectors).last_hidden_state[0, -1]  # noqa: E731
        jacobian = torch.autograd.functional.jacobian(last, embeddings.detach())[:, 0]
        norms = jacobian.norm(dim=(0, 2))
        row = exact.share.sel(step=step)
        np.testing.assert_allclose(row[: len(norms)], norms / norms.sum(), rtol=1e-5, atol=1e-6)
        assert not row[len(norms) :].any()
    assert (exact.error == 0).all()
    assert (estimated.low <= exact.share).mean() > 0.9
    assert (exact.share <= estimated.high).mean() > 0.9


@pytest.mark.parametrize("method", ["integrated_gradients", "leave_one_out", "rollout:raw"])
def test_other_explanations_are_those_of_maps(model, answer, method):
    result = idf.answer_attribution(model, answer, method=method, steps=[1, 2])
    for step in (1, 2):
        expected = idf.maps(model, answer, kinds=[method], step=step).importance[0]
        np.testing.assert_allclose(result.attribution.sel(step=step), expected, atol=1e-12)
        assert not result.attribution.sel(step=step)[answer.start + step :].any()
        assert result.attribution.sel(step=step)[answer.start + step - 1] != 0


def test_an_explanation_of_an_answer_is_that_of_its_text_with_the_token_as_last(model, answer):
    """Of what a token drew on, nothing depends on the tokens after it."""
    longer = idf.maps(model, answer, kinds=["gradient_times_input"], step=0).importance[0]
    alone = idf.maps(model, model.generate(TEXT, max_new_tokens=1), kinds=["gradient_times_input"]).importance[0]
    np.testing.assert_allclose(longer[: answer.start], alone[: answer.start], rtol=1e-5, atol=1e-6)


def test_spans_sum_to_one_and_faithfulness_takes_an_answer(model, answer):
    result = idf.answer_attribution(model, answer, group_by="span")
    assert result["set"].values.tolist() == ["prompt", "answer"]
    np.testing.assert_allclose(result.set_share.sum("set"), 1)
    assert result.set_share.sel(set="answer", step=0) == 0
    scores = idf.faithfulness(model, answer, maps=["raw", "gradient_times_input"], yardsticks=["value_zeroing", "deletion_mask"])
    assert scores.score.notnull().all()
    importance = idf.maps(model, answer, kinds=["gradient_times_input"]).importance[0]
    words = [position for position in range(answer.start) if not answer.tokens.special[position]]
    ranked, outputs = sorted(words, key=lambda position: -float(importance[position])), []
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        ids = torch.tensor([answer.tokens.ids[: answer.start]])
        ids[0, ranked[: round(share * len(ranked))]] = word_tokenizer().unk_token_id
        logits = model.network(ids).logits[0, -1]
        outputs.append(float(logits[answer.tokens.ids[answer.start]] - logits.mean()))
    expected = outputs[0] - np.trapezoid(outputs, dx=0.2)
    assert scores.explanation_score.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "raw"}, "expected an explanation of the output"),
        ({"output": "loss"}, "expected the output 'logit' or 'probability', got 'loss'"),
        ({"output": "probability", "method": "alti_logit"}, "for a probability, got 'alti_logit'; explain the logit"),
        ({"steps": [3]}, "expected a step from 0 to 2, got 3"),
    ],
)
def test_bad_options_are_rejected(model, answer, options, message):
    with pytest.raises(InputError, match=message):
        idf.answer_attribution(model, answer, **options)


def test_only_answers_of_the_model_are_accepted(model, answer):
    with pytest.raises(InputError, match=r"expected an answer from model\.generate, got str"):
        idf.answer_attribution(model, TEXT)
    with pytest.raises(InputError, match="expected an answer of this model"):
        idf.answer_attribution(_model("qwen3"), answer)
    with pytest.raises(InputError, match="which is read alone"):
        idf.maps(model, answer, TEXT, kinds=["raw"])
    with pytest.raises(InputError, match="expected a step from 0 to 2, got 7"):
        idf.maps(model, answer, kinds=["raw"], step=7)
