"""The number that explanations explain, against what each head computes."""

from types import SimpleNamespace

import pytest
import torch

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models import load
from identiformer.passage import Passage
from identiformer.texts import Example
from tests.measures.maps.tiny import TEXT, tiny_network, tiny_subject
from tests.models.families import ENCODER_DECODERS, build, word_tokenizer

HEAD, LM = "SequenceClassification", "CausalLM"


def _positions_with_gradient(passage):
    """The positions of the last hidden vectors on which the target depends."""
    network = passage.model.network.requires_grad_()
    result = network(**passage.batch.inputs, output_hidden_states=True)
    (gradient,) = torch.autograd.grad(passage.target.value(result)[0], result.hidden_states[-1])
    return tuple(gradient[0].norm(dim=-1).nonzero()[:, 0].tolist())


@pytest.mark.parametrize(
    ("family", "task", "settings"),
    [
        ("bert", HEAD, {}),
        ("roberta", HEAD, {}),
        ("modernbert", HEAD, {"classifier_pooling": "mean"}),
        ("modernbert", HEAD, {"classifier_pooling": "cls"}),
        ("gpt2", HEAD, {}),
        ("llama", HEAD, {}),
        ("llama", LM, {}),
    ],
)
def test_positions_are_those_that_the_head_reads(family, task, settings):
    passage = tiny_subject(family, task, **settings)
    assert passage.target.positions == _positions_with_gradient(passage)
    assert passage.target.kind == ("token" if task == LM else "class")


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_class_is_the_predicted_one(family):
    passage = tiny_subject(family, HEAD, num_labels=3)
    logits = passage.model.network(**passage.batch.inputs).logits[0]
    assert passage.target.index == int(logits.argmax())
    assert passage.target.unchanged == pytest.approx(float(logits.max() - logits.mean()))
    assert passage.target.title == f"logit of class LABEL_{passage.target.index}"


def test_one_class_is_a_score():
    passage = tiny_subject("bert", HEAD, num_labels=1)
    output = passage.model.network(**passage.batch.inputs).logits
    assert (passage.target.kind, passage.target.index) == ("score", 0)
    assert passage.target.unchanged == passage.target.value(SimpleNamespace(logits=output)).item() == output.item()


@pytest.mark.parametrize(("family", "task"), [("bert", HEAD), ("llama", LM)])
def test_what_all_logits_share_is_ignored(family, task):
    target = tiny_subject(family, task).target
    logits = torch.randn(3, 100) if task == HEAD else torch.randn(3, 8, 100)
    first, second = (target.value(SimpleNamespace(logits=each)) for each in (logits, logits + 7))
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_backbone_with_tied_embeddings_has_the_logits_of_its_language_model(family):
    network = tiny_network(family, LM, tie_word_embeddings=True)
    whole = Passage.of(load(network, word_tokenizer()), Example(TEXT, None))
    bare = Passage.of(load(network.base_model, word_tokenizer()), Example(TEXT, None))
    assert bare.target.index == whole.target.index
    assert bare.target.unchanged == pytest.approx(whole.target.unchanged, rel=1e-12)
    assert bare.target.direction is not None
    assert whole.target.direction is None


@pytest.mark.parametrize(("family", "task"), [("bert", ""), ("bert", "MaskedLM"), ("llama", "")])
def test_other_models_have_the_length_of_their_pooled_output(family, task):
    passage = tiny_subject(family, task, tie_word_embeddings=False)
    states = passage.model.backbone(**passage.batch.inputs).last_hidden_state[0]
    assert passage.target.positions == tuple(range(1, 7))
    assert passage.target.unchanged == pytest.approx(float(states[1:7].mean(0).norm()))


@pytest.mark.parametrize(("family", "task"), [("bert", ""), ("bert", HEAD), ("llama", LM), ("llama", "")])
def test_value_of_a_batch_is_that_of_its_texts(family, task):
    passage = tiny_subject(family, task)
    target, model = passage.target, passage.model
    single = [model.encode(text, None, False).inputs for text in (TEXT, "w8 w2 w4 w1 w5 w9")]
    together = {name: torch.cat([inputs[name] for inputs in single]) for name in single[0]}
    values = target.value(model.forward(target.replica(model), together))
    assert values[0].item() == pytest.approx(target.unchanged)
    assert values[1].item() == pytest.approx(target.value(model.forward(target.replica(model), single[1])).item())
    assert values[1].item() != pytest.approx(target.unchanged)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_value_is_read_at_other_positions_in_shorter_texts(family):
    passage = tiny_subject(family, tie_word_embeddings=True)
    target, model = passage.target, passage.model
    batch = model.encode([TEXT, "w3 w1"], None, False)
    read = torch.zeros(2, 8, dtype=torch.bool)
    read[0, list(target.positions)] = True
    read[1, [1, 2] if family == "bert" else [3]] = True
    values = target.value(model.forward(target.replica(model), batch.inputs), read)
    short = model.forward(target.replica(model), model.encode("w3 w1", None, False).inputs).last_hidden_state[0]
    expected = (short[1:3] if family == "bert" else short[-1:]).mean(0) @ target.direction
    torch.testing.assert_close(values, torch.stack([torch.tensor(target.unchanged, dtype=torch.float64), expected]))


def test_encoder_decoder_is_explained_for_its_encoder():
    model = load(build("t5", ENCODER_DECODERS["t5"]).requires_grad_(False), word_tokenizer())
    passage = Passage.of(model, Example(TEXT, None))
    states = model.network.encoder(**passage.batch.inputs).last_hidden_state[0]
    assert passage.target.unchanged == pytest.approx(float(states[1:7].mean(0).norm()), rel=1e-5)
    with pytest.raises(UnsupportedModelError, match="encoder only"):
        _ = Passage.of(model, Example(TEXT, TEXT)).target


def test_output_of_zero_cannot_be_explained():
    network = tiny_network("bert")
    torch.nn.init.zeros_(network.encoder.layer[-1].output.LayerNorm.weight)
    with pytest.raises(InputError, match="length 0"):
        _ = Passage.of(load(network, word_tokenizer()), Example(TEXT, None)).target


@pytest.mark.parametrize("task", [LM, ""])
def test_an_answer_is_predicted_at_the_position_before_it(task):
    network = tiny_network("llama", task, tie_word_embeddings=True)
    model = load(network, word_tokenizer())
    passage = Passage.of(model, Example(TEXT, answer=(6, 8)))
    assert passage.target.positions == (2,)
    assert passage.target.index == word_tokenizer().convert_tokens_to_ids("w4")
    states = model.backbone(**passage.batch.inputs).last_hidden_state[0, 2]
    logits = states @ model.backbone.get_input_embeddings().weight.mT
    expected = float(logits[passage.target.index] - logits.mean())
    assert passage.target.unchanged == pytest.approx(expected, rel=1e-6)
    without = tiny_subject("llama", task, tie_word_embeddings=True)
    assert without.target.positions == (7,)
