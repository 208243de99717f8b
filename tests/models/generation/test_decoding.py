"""Which tokens are written, against a loop over the untouched network, whatever generation_config the model has."""

import json

import pytest
import torch
from transformers import GenerationConfig

import identiformer as idf
from identiformer.errors import InputError
from identiformer.models import load
from identiformer.readings import answer_as_json
from tests.measures.maps.tiny import tiny_network
from tests.models.families import word_tokenizer, words

PROMPT, COUNT = words(6), 8
STOP = 3
DETERMINISTIC = {
    "repetition_penalty": 9.0,
    "encoder_repetition_penalty": 9.0,
    "no_repeat_ngram_size": 1,
    "suppress_tokens": list(range(10, 60)),
    "begin_suppress_tokens": [79],
    "sequence_bias": [[[7], 90.0]],
    "bad_words_ids": [[token] for token in range(10, 60)],
    "guidance_scale": 9.0,
    "forced_eos_token_id": 8,
    "exponential_decay_length_penalty": [2, 90.0],
    "watermarking_config": {"bias": 90.0},
    "max_time": 1e-9,
}
"""Each changes the most probable answer of the model below."""
SAMPLED = {"top_k": 2, "top_p": 0.05, "top_h": 0.05, "min_p": 0.9, "typical_p": 0.05, "epsilon_cutoff": 0.02, "eta_cutoff": 0.9}
OTHER_MODES = {
    "num_beams": 3,
    "dola_layers": "low",
    "penalty_alpha": 0.6,
    "prompt_lookup_num_tokens": 2,
    "token_healing": True,
    "stop_strings": ["w"],
    "output_attentions": True,
}


@pytest.fixture(scope="module")
def tiny():
    tokenizer = word_tokenizer()
    return load(tiny_network("llama", "CausalLM", double=False, vocab_size=len(tokenizer)), tokenizer)


def _loop(model, temperature=0.0, seed=0):
    """What the softmax of the network's own logits gives, one token after the other."""
    ids = list(model.tokens(PROMPT).ids)
    start = len(ids)
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        while len(ids) < start + COUNT and (len(ids) == start or ids[-1] != STOP):
            logits = model.network(torch.tensor([ids])).logits[0, -1]
            ids.append(int(torch.multinomial((logits / temperature).softmax(-1), 1) if temperature else logits.argmax()))
    return ids


def _configure(model, settings):
    model.network.generation_config = GenerationConfig(eos_token_id=STOP)
    model.network.generation_config.update(**settings)


def _by_transformers(model, temperature, seed=0):
    """What transformers writes with the generation_config of the network."""
    sampling = {"temperature": temperature} if temperature else {}
    ids = torch.tensor([model.tokens(PROMPT).ids])
    top_k = 0 if model.network.generation_config.top_k is None else model.network.generation_config.top_k
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        options = {"do_sample": bool(temperature), "max_new_tokens": COUNT, "top_k": top_k, **sampling}
        return model.network.generate(ids, attention_mask=torch.ones_like(ids), **options)[0].tolist()


@pytest.mark.parametrize(
    ("name", "temperature"),
    [
        pytest.param(name, temperature, marks=[] if (temperature > 0) == (name in SAMPLED) else pytest.mark.slow)
        for name in (*DETERMINISTIC, *SAMPLED, *OTHER_MODES)
        for temperature in (0.0, 0.7)
    ],
)
def test_by_default_only_logits_and_stop_tokens_decide(tiny, name, temperature):
    _configure(tiny, {name: (DETERMINISTIC | SAMPLED | OTHER_MODES)[name], **({"top_k": 4} if name == "penalty_alpha" else {})})
    answer = tiny.generate(PROMPT, max_new_tokens=COUNT, temperature=temperature, seed=5)
    assert list(answer.tokens.ids) == _loop(tiny, temperature, 5)
    assert answer.decoding == ({"temperature": 0.7, "seed": 5} if temperature else {"temperature": 0.0})


@pytest.mark.parametrize(("name", "temperature"), [*((name, 0.0) for name in DETERMINISTIC), *((name, 0.7) for name in SAMPLED)])
def test_on_request_settings_of_the_model_act_and_are_named(tiny, name, temperature):
    value = (DETERMINISTIC | SAMPLED)[name]
    _configure(tiny, {name: value, "max_length": 12, "repetition_penalty" if name in SAMPLED else "temperature": 1.0})
    options = {"max_new_tokens": COUNT, "temperature": temperature, "seed": 5}
    answer = tiny.generate(PROMPT, generation_config="model", **options)
    assert list(answer.tokens.ids) == _by_transformers(tiny, temperature, 5)
    assert list(answer.tokens.ids) != _loop(tiny, temperature, 5)
    assert set(answer.decoding) == {"temperature", name, *(["seed"] if temperature else [])}
    if isinstance(value, dict):
        assert answer.decoding[name]["bias"] == value["bias"]
    else:
        assert answer.decoding[name] == value
    found = answer_as_json(answer, idf.answer_attribution(tiny, answer))
    assert f"under the generation_config of the model ({name} " in found["sentences"][0]
    assert found["decoding"] == answer.decoding


def test_settings_without_an_effect_are_not_named(tiny):
    _configure(tiny, {"top_p": 0.1, "repetition_penalty": 1.0, "use_cache": False, "max_length": 12, "chat_format": "x"})
    answer = tiny.generate(PROMPT, generation_config="model", max_new_tokens=COUNT)
    assert answer.decoding == {"temperature": 0.0}
    assert list(answer.tokens.ids) == _loop(tiny)


def test_results_say_how_the_answer_was_written(tiny):
    _configure(tiny, {"repetition_penalty": 9.0})
    answer = tiny.generate(PROMPT, generation_config="model", max_new_tokens=2)
    for result in (idf.answer_attribution(tiny, answer), idf.read(tiny, answer, certify=False).result):
        assert json.loads(result.attrs["decoding"]) == {"temperature": 0.0, "repetition_penalty": 9.0}
    found = answer_as_json(
        tiny.generate(PROMPT, max_new_tokens=2), idf.answer_attribution(tiny, tiny.generate(PROMPT, max_new_tokens=2))
    )
    assert "Each was the most probable one." in found["sentences"][0]


@pytest.mark.parametrize("name", ["num_beams", "dola_layers", "penalty_alpha", "prompt_lookup_num_tokens", "token_healing"])
def test_other_ways_to_write_are_rejected_on_request(tiny, name):
    _configure(tiny, {name: OTHER_MODES[name], "top_k": 4})
    with pytest.raises(InputError, match=f"writes one token after the other, got .*{name}"):
        tiny.generate(PROMPT, generation_config="model", max_new_tokens=2)


def test_other_sources_are_rejected(tiny):
    with pytest.raises(InputError, match="expected generation_config 'model', or none"):
        tiny.generate(PROMPT, generation_config="gpt2")
