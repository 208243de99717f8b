"""Moving weight between keys: an alternative, a change, and predictions before and after."""

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import identiformer as idf
from identiformer.errors import InputError
from identiformer.readings import moved_weight_sentences
from identiformer.support.tiny_models import tiny_model
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def language_model():
    torch.manual_seed(2)
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SERVED["llama"])).eval()
    return idf.load(network, word_tokenizer())


def test_the_model_is_run_with_the_moved_weight(language_model):
    trace = language_model.trace(words(9))
    moved = idf.move_weight(language_model, trace, 1, 2, 6, source=1, target=4, share=0.5)
    record = trace.layer(1).recorded()
    weights = record.weights[2].double().clone()
    assert float(moved.amount) == pytest.approx(float(weights[6, 1]) / 2)
    weights[6, 4] += weights[6, 1] / 2
    weights[6, 1] /= 2
    rerun = language_model.rerun(trace, {(1, 2): weights})
    assert all(moved[name] == getattr(rerun.output, name) for name in ("patched", "control", "floor", "scale"))
    # The head's output, multiplied out.
    values = record.values[1].double() @ record.projection[2].double()
    before, after = record.weights[2, 6].double() @ values, weights[6] @ values
    assert float(moved.head_change) == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-6)
    assert not moved.alternative
    assert "not an alternative" in moved_weight_sentences(moved)[0]


def test_predictions_are_those_of_the_network(language_model):
    trace = language_model.trace(words(9))
    moved = idf.move_weight(language_model, trace, 1, 0, 5, source=0, target=5)
    assert moved["position"].values.tolist() == [5, len(trace.tokens) - 1]
    first = moved.isel(position=0)
    ids = torch.tensor([trace.stacks[0].queries.ids])
    with torch.no_grad():
        probabilities = language_model.network(input_ids=ids).logits[0, 5].softmax(-1)
    assert first.probability_before.values == pytest.approx(probabilities.topk(5).values.tolist(), rel=1e-4)
    names = language_model.tokenizer.convert_ids_to_tokens(probabilities[:94].topk(5).indices.tolist())
    assert first.token_before.values.tolist() == names
    assert 0 < first.total_variation < 1
    assert not np.array_equal(first.probability_before, first.probability_after)


def test_equal_values_make_an_alternative():
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    trace = model.trace("w1 w2 w3 w4")
    record = trace.layer(1).recorded()
    record.values[:, 2] = record.values[:, 3]  # then the head cannot distinguish the two keys
    moved = idf.move_weight(model, trace, 1, 0, 1, source=2, target=3)
    assert moved.alternative
    assert moved.sizes["position"] == 0
    assert moved_weight_sentences(moved)[0].startswith("The changed row is an alternative")


def test_an_image():
    network = tiny_model("vit")
    model = idf.load(network)
    image = torch.randn(3, network.config.image_size, network.config.image_size)
    trace = model.trace(image)
    moved = idf.move_weight(model, trace, 1, 0, 1, source=2, target=3, tensor=image)
    weights = trace.layer(1).recorded().weights[0].double().clone()
    weights[1, 3] += weights[1, 2]
    weights[1, 2] = 0
    expected = model.rerun(trace, {(1, 0): weights}, tensor=image).output
    assert (moved.patched, moved.control) == (expected.patched, expected.control)
    assert expected.patched > 0
    assert moved.sizes["position"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": 3, "target": 3}, "expected two different keys, got 3 twice"),
        ({"source": 1, "target": 7}, "expected a key that the query at 6 sees, got 7"),
        ({"source": 1, "target": 99}, "expected a key from 0 to"),
        ({"source": 1, "target": 2, "share": 0.0}, "expected a share of the weight above 0"),
        ({"source": 1, "target": 2, "share": float("nan")}, "expected a share of the weight above 0"),
    ],
)
def test_moves_that_make_no_sense(language_model, arguments, message):
    trace = language_model.trace(words(9))
    with pytest.raises(InputError, match=message):
        idf.move_weight(language_model, trace, 1, 0, 6, **arguments)
