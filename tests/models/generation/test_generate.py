"""Answers of language models: the tokens that were written, who said what, and the trace of the pass that wrote them."""

import pytest
import torch
import transformers
from transformers import GenerationConfig
from transformers.generation.streamers import BaseStreamer

import identiformer as idf
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models import load
from identiformer.models.generation import generate as generating
from identiformer.texts import PASSAGE
from tests.models.families import SERVED, build, word_tokenizer, words

TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}w9 "
QUESTION = "Why is the sky blue?"


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(0)
    network = transformers.AutoModelForCausalLM.from_config(build("llama", SERVED["llama"]).config).eval()
    return load(network, word_tokenizer())


MODELS = ["tiny", pytest.param("smollm2", marks=pytest.mark.slow)]
PROMPTS = {"tiny": (words(6), 3), "smollm2": ("The capital of France is", 10)}
"""And how many tokens to write: later ones of the random model are not all in its vocabulary."""


@pytest.mark.parametrize("name", MODELS)
def test_the_trace_is_the_attention_of_the_cached_pass(request, name):
    model = request.getfixturevalue(name)
    prompt, count = PROMPTS[name]
    answer = model.generate(prompt, max_new_tokens=count)
    network = transformers.AutoModelForCausalLM.from_config(model.network.config, attn_implementation="eager").eval()
    network.load_state_dict(model.network.state_dict())
    ids = torch.tensor([answer.tokens.ids[: answer.start]])
    settings = GenerationConfig(max_new_tokens=count, do_sample=False, output_attentions=True, return_dict_in_generate=True)
    cached = network.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings, output_logits=True)
    assert cached.sequences[0].tolist() == list(answer.tokens.ids)
    for step, position in list(enumerate(answer.positions))[1:]:
        for layer in {1, len(cached.attentions[step])}:
            row = cached.attentions[step][layer - 1][0, :, 0]
            torch.testing.assert_close(answer.trace.layer(layer).weights[:, position, : position + 1], row, atol=1e-5, rtol=0)
    chosen = [float(logits[0].softmax(-1).max()) for logits in cached.logits]
    assert answer.probabilities == pytest.approx(chosen, abs=1e-4)


@pytest.mark.slow
def test_a_long_answer_is_that_of_transformers_and_its_trace_is_the_cached_pass(smollm2):
    """200 tokens of prompt and 60 of answer: the same text, and the same weights in all layers, heads and steps."""
    prompt = smollm2.tokenizer.decode(smollm2.tokenizer(PASSAGE + PASSAGE)["input_ids"][:200])
    answer = smollm2.generate(prompt, max_new_tokens=60)
    assert answer.start == 200
    ids = torch.tensor([answer.tokens.ids[:200]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    settings = {"max_new_tokens": 60, "do_sample": False}
    written = smollm2.network.generate(**inputs, **settings)[0].tolist()
    assert written == list(answer.tokens.ids)
    assert smollm2.tokenizer.decode(written[200:], skip_special_tokens=True) == answer.text
    network = transformers.AutoModelForCausalLM.from_config(smollm2.network.config, attn_implementation="eager").eval()
    network.load_state_dict(smollm2.network.state_dict())
    cached = network.generate(**inputs, **settings, output_attentions=True, return_dict_in_generate=True)
    assert cached.sequences[0].tolist() == written
    for layer, recorded in enumerate(answer.trace.stack().layers):
        weights = recorded.recorded().weights
        torch.testing.assert_close(weights[:, :200, :200], cached.attentions[0][layer][0], atol=1e-5, rtol=0)
        for step, position in list(enumerate(answer.positions))[1:]:
            row = cached.attentions[step][layer][0, :, 0]
            torch.testing.assert_close(weights[:, position, : position + 1], row, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_a_chat_is_that_of_transformers_and_its_parts_have_names(smollm2):
    answer = smollm2.generate(QUESTION, chat=True, max_new_tokens=10)
    messages = [{"role": "user", "content": QUESTION}]
    prompt = smollm2.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    written = smollm2.network.generate(**prompt, max_new_tokens=10, do_sample=False)[0].tolist()
    assert list(answer.tokens.ids) == written
    assert answer.text == smollm2.tokenizer.decode(written[answer.start :], skip_special_tokens=True)

    def said(name):
        chosen = zip(answer.tokens.texts, answer.tokens.span_names, strict=True)
        return "".join(text for text, part in chosen if part == name).replace("▁", " ")

    assert said("user") == QUESTION
    assert said("assistant") == answer.text
    assert "assistant" in said("template")
    assert set(answer.tokens.span_names[answer.start :]) == {"assistant"}


def test_a_chat_of_several_messages_and_spans_of_characters(tiny):
    tiny.tokenizer.chat_template = TEMPLATE
    messages = [{"role": role, "content": f"w{number} w5"} for number, role in enumerate(("user", "assistant", "user"), 1)]
    answer = tiny.generate(messages, system="w7", max_new_tokens=2)
    assert answer.prompt == "system w7 user w1 w5 assistant w2 w5 user w3 w5 w9 "
    names = answer.tokens.span_names
    assert [name for index, name in enumerate(names) if name != "template" and name not in names[:index]] == [
        "system", "user", "assistant", "user 2",
    ]  # fmt: skip
    plain = tiny.generate("w1 w2 w3", max_new_tokens=2, spans={"key": (3, 5)})
    special = tuple("prompt" for flag in plain.tokens.special[: plain.start] if flag)
    assert [name for name in plain.tokens.span_names if name != "prompt"] == ["key", "answer", "answer"]
    assert len(special) == sum(plain.tokens.special[: plain.start])


def test_measures_take_an_answer(tiny):
    answer = tiny.generate(words(6), max_new_tokens=3)
    ids = answer.tokens.ids
    assert tiny.trace(answer).stacks[0].queries.ids == ids
    result = idf.token_attribution(tiny, answer, targets=list(answer.positions), group_by="span")
    assert result["set"].values.tolist() == ["prompt", "answer"]
    assert result.set_contribution.sum("set").values == pytest.approx(1)
    assert tiny.rerun(answer.trace, {(1, 0): answer.trace.layer(1).weights[0]}).output.patched < 1e-6
    with pytest.raises(InputError, match="expected an answer of this model"):
        load(build("llama", SERVED["llama"]), word_tokenizer()).trace(answer)
    with pytest.raises(InputError, match=r"whose spans have names, got a text; use model\.generate"):
        idf.token_attribution(tiny, words(6), group_by="span")


def test_sampling_depends_on_the_seed_alone(tiny):
    before = torch.get_rng_state()
    first, again, other = (tiny.generate(words(4), temperature=1.0, seed=seed, max_new_tokens=8) for seed in (1, 1, 2))
    assert first.tokens == again.tokens
    assert first.tokens != other.tokens
    assert torch.equal(torch.get_rng_state(), before)


def test_an_interrupted_answer_is_kept_on_request(tiny, monkeypatch):
    class Interrupting(generating._Kept):
        def put(self, value):
            super().put(value)
            if len(self.ids) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(generating, "_Kept", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        tiny.generate(words(4), max_new_tokens=30)
    answer = tiny.generate(words(4), max_new_tokens=30, keep_partial=True)
    assert answer.interrupted
    assert len(answer.probabilities) == len(answer.tokens) - answer.start == 3
    assert issubclass(Interrupting, BaseStreamer)


def test_a_stop_token_at_once_is_an_answer_without_text(tiny, monkeypatch):
    stop = tiny.generate(words(4), max_new_tokens=1).tokens.ids[-1]
    monkeypatch.setattr(tiny.network.generation_config, "eos_token_id", stop)
    monkeypatch.setattr(type(tiny.tokenizer), "all_special_ids", property(lambda _: [stop]))
    answer = tiny.generate(words(4), max_new_tokens=5)
    assert answer.tokens.ids[answer.start :] == (stop,)
    assert answer.tokens.special[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 4}, "expected one beam, got 4"),
        ({"max_new_tokens": 0}, "expected at least 1 new token.*got 0"),
        ({"temperature": -1.0}, "expected a temperature of 0"),
        ({"system": "w1"}, "expected a chat for a system message"),
        ({"max_new_tokens": 10**6}, "expected a prompt and an answer of at most"),
        ({"spans": {"key": (5, 3)}}, "expected a span from one character to a later one"),
    ],
)
def test_bad_options_are_rejected(tiny, options, message):
    with pytest.raises(InputError, match=message):
        tiny.generate(words(4), **options)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [(" ", "expected a prompt, got an empty one"), ([{"role": "user"}], "expected messages with the keys role and content")],
)
def test_bad_prompts_are_rejected(tiny, prompt, message):
    with pytest.raises(InputError, match=message):
        tiny.generate(prompt)


def test_models_that_cannot_chat_or_write_are_rejected(tiny, minilm, monkeypatch):
    monkeypatch.setattr(tiny.tokenizer, "chat_template", None)
    with pytest.raises(InputError, match="expected a tokenizer with a chat template"):
        tiny.generate("w1", chat=True)
    with pytest.raises(UnsupportedModelError, match="expected a causal language model with its head, got BertModel"):
        minilm.generate("Hello")
