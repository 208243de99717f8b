"""What can be loaded, what is rejected, and with which message."""

import json
import pickle

import peft
import pytest
import torch
import transformers
from torch import nn

from identiformer.errors import InputError, ModelError, ModelWarning, UnsupportedModelError
from identiformer.models import load
from identiformer.models.interventions.random_weights import with_random_weights
from tests.models.families import OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer, words

TOKENIZER = word_tokenizer()


@pytest.fixture
def folder(tmp_path):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path / "tiny")
    word_tokenizer().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_a_size_of_memory_is_kept_by_traces_and_by_what_is_made_of_the_model(folder):
    for memory, size in (("4GiB", 2**32), ("1.5 mb", 3 * 2**19), ("64k", 2**16), (12345, 12345)):
        assert load(folder, memory=memory).memory == size
    model = load(folder, memory=12345)
    made = (model, model.limited(4), pickle.loads(pickle.dumps(model)), with_random_weights(model, 0))
    assert [other.trace("w1 w2").memory for other in made] == [12345] * 4
    assert [load(folder, memory=size).trace("w1 w2").source["form"] for size in (10**6, 10)] == ["weights", "factored"]


def test_a_model_that_has_run_can_be_sent_to_another_process(tmp_path):
    model = load(build("bert", SERVED["bert"]), word_tokenizer())
    before = model.trace("w1 w2")
    model.network(**model.tokenizer("w1 w2", return_tensors="pt"), output_hidden_states=True)
    sent = pickle.loads(pickle.dumps(model))
    assert sent.revision == model.revision
    assert torch.equal(sent.trace("w1 w2").layer(2).weights, before.layer(2).weights)


def test_weights_missing_from_the_files_are_the_same_at_every_load(tmp_path):
    network = build("bert", SERVED["bert"])
    weights = {name: tensor for name, tensor in network.state_dict().items() if not name.startswith("pooler")}
    network.save_pretrained(tmp_path, state_dict=weights)
    word_tokenizer().save_pretrained(tmp_path)
    before = torch.get_rng_state()
    assert load(tmp_path).revision == load(tmp_path).revision
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_loads(folder):
    model = load(folder)
    assert model.trace("w1 w2 w3").tokens == ("[CLS]", "w1", "w2", "w3", "[SEP]")
    assert model.revision.startswith("sha256:")
    assert model.revision == load(folder).revision


@pytest.mark.parametrize(
    ("family", "head"), [("llama", "CausalLM"), ("bert", "MaskedLM"), ("bert", "SequenceClassification"), ("gpt2", "CausalLM")]
)
def test_a_stored_head_is_loaded(tmp_path, family, head):
    config = build(family, SERVED[family]).config
    network = getattr(transformers, f"AutoModelFor{head}").from_config(config).eval()
    network.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    model = load(tmp_path)
    inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
    torch.testing.assert_close(model.network(**inputs).logits, network(**inputs).logits)
    without = load(tmp_path, task="none")
    assert type(without.network) is type(network.base_model)
    assert torch.equal(without.trace("w1 w2").layer(2).weights, model.trace("w1 w2").layer(2).weights)


def test_a_head_that_is_not_stored_is_left_out_or_named(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertForSequenceClassification"]}))
    assert type(load(folder).network).__name__ == "BertModel"
    with pytest.raises(ModelError, match=r"a head for classification in the files of .*classifier.*task='none'"):
        load(folder, task="classification")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_model_runs_in_the_precision_of_its_files_or_another(tmp_path, dtype):
    build("bert", SERVED["bert"]).to(dtype).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    assert load(tmp_path).network.dtype == dtype
    assert load(tmp_path, dtype="float64").network.dtype == torch.float64


def test_an_unknown_task_is_rejected(folder):
    with pytest.raises(InputError, match="expected a task of causal-lm, masked-lm, classification, none, got 'poetry'"):
        load(folder, task="poetry")


def test_an_unknown_id_without_network_lists_what_works_offline():
    with pytest.raises(ModelError, match=r"minilm and smollm2 work offline.*hf download no-such/model"):
        load("no-such/model")


def test_a_folder_or_file_without_a_model_is_rejected(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        load(tmp_path)
    (tmp_path / "weights.txt").write_text("no weights")
    with pytest.raises(ModelError, match="got the file"):
        load(tmp_path / "weights.txt")


def test_a_damaged_configuration_is_rejected(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(folder)


def test_pickled_weights_are_rejected_unless_allowed(folder):
    network = load(folder).network
    (folder / "model.safetensors").unlink()
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickle"):
        load(folder)
    assert len(load(folder, allow_pickle=True).trace("w1 w2").stack().layers) == 2


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_and_infinite_weights_are_rejected_by_name(wrong):
    network = build("bert", SERVED["bert"])
    network.encoder.layer[1].output.dense.weight.data[0, 0] = wrong
    with pytest.raises(ModelError, match=r"encoder\.layer\.1\.output\.dense\.weight"):
        load(network, word_tokenizer())


def test_a_model_in_memory_needs_its_tokenizer():
    with pytest.raises(InputError, match="tokenizer"):
        load(build("bert", SERVED["bert"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "a dtype to compute in"),
        ({"device": "nowhere"}, "device"),
        *(({"memory": memory}, "a size of memory such as") for memory in ("4", "4 parsecs", "1e9GiB", 0, -1, True, "9" * 30)),
    ],
)
def test_invalid_options_are_rejected(folder, options, message):
    with pytest.raises(InputError, match=message):
        load(folder, **options)


def test_a_folder_loads_in_half_precision(folder):
    trace = load(folder, dtype="bfloat16").trace("w1 w2 w3 w4")
    assert trace.layer(1).values.dtype == torch.bfloat16


@pytest.mark.parametrize("family", ["bert", "llama", "gemma2", "deberta-v2", "mpnet", "gptj", "longformer"])
def test_half_precision_is_recorded_unchanged(family):
    network = build(family, {**SERVED, **OUTSIDE_THE_INTERFACE}[family]).half()
    layers = load(network, TOKENIZER).trace(words(11)).stack().layers
    for layer in layers:
        assert layer.values.dtype == torch.float16
        torch.testing.assert_close(layer.weights.float().sum(-1), torch.ones(4, 13), atol=3e-3, rtol=0)


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="transformers cannot compile with a torch before 2.7")
def test_a_compiled_model_is_recorded_uncompiled():
    network = build("bert", SERVED["bert"])
    expected = load(network, TOKENIZER).trace(words(6)).layer(2).weights
    assert torch.equal(load(torch.compile(network), TOKENIZER).trace(words(6)).layer(2).weights, expected)
    network.compile()
    compiled = network._compiled_call_impl
    assert torch.equal(load(network, TOKENIZER).trace(words(6)).layer(2).weights, expected)
    assert network._compiled_call_impl is compiled


ADAPTED = {
    "bert": ["query", "value", "attention.output.dense"],
    "llama": ["q_proj", "v_proj", "o_proj"],
    "gpt2": ["c_attn", "c_proj"],
}


@pytest.mark.parametrize("family", ADAPTED)
def test_adapters_are_part_of_the_maps(family):
    settings = peft.LoraConfig(target_modules=ADAPTED[family], init_lora_weights=False, fan_in_fan_out=family == "gpt2")
    adapted = peft.get_peft_model(build(family, SERVED[family]), settings).eval()
    model = load(adapted, TOKENIZER)
    layer, projection = model.trace(words(6)).layer(2), model.trace(words(6)).layer(2).projection
    assert model.rerun(model.trace(words(6)), {(2, 0): layer.weights[0]}).output.patched < 1e-6
    merged = load(adapted.merge_and_unload(), TOKENIZER).trace(words(6)).layer(2)
    torch.testing.assert_close(layer.weights, merged.weights, atol=1e-6, rtol=0)
    torch.testing.assert_close(layer.values, merged.values, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(projection, merged.projection, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(layer.value_bias, merged.value_bias, atol=1e-6, rtol=0)


def test_learned_prompts_are_rejected():
    settings = peft.PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    network = peft.get_peft_model(build("gpt2", SERVED["gpt2"]), settings)
    with pytest.raises(UnsupportedModelError, match="get_base_model"):
        load(network, TOKENIZER)
    assert len(load(network.get_base_model(), TOKENIZER).trace(words(6)).tokens) == 8


class Rounding(nn.Module):
    """A linear map of which only what it does is known, and which rounds its input as a quantized one does."""

    def __init__(self, linear, levels):
        super().__init__()
        self.linear, self.levels = linear, levels
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, inputs):
        scale = inputs.abs().amax(-1, keepdim=True).clamp(min=1e-9) / self.levels
        return self.linear((inputs / scale).round() * scale)


def rounding(levels):
    network = build("bert", SERVED["bert"])
    for layer in network.encoder.layer:
        layer.attention.output.dense = Rounding(layer.attention.output.dense, levels)
    return network


def test_a_projection_is_read_by_what_it_does():
    exact = load(build("bert", SERVED["bert"]), TOKENIZER).trace(words(6)).layer(2).projection
    with pytest.warns(ModelWarning, match=r"not exactly linear: .* differs by 0\.\d%"):
        projection = load(rounding(127), TOKENIZER).trace(words(6)).layer(2).projection
    torch.testing.assert_close(projection, exact, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(load(rounding(2**20), TOKENIZER).trace(words(6)).layer(2).projection, exact, atol=1e-6, rtol=1e-6)
    with pytest.raises(UnsupportedModelError, match=r"Rounding is not linear: .* differs by \d+\.\d%"):
        load(rounding(4), TOKENIZER).trace(words(6))


@pytest.mark.filterwarnings("ignore::identiformer.errors.ModelWarning")
@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantized_model_is_traced(tmp_path, bits):
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes: pip install bitsandbytes")
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    settings = transformers.BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    network = transformers.AutoModel.from_pretrained(tmp_path, quantization_config=settings)
    layer = load(network, TOKENIZER).trace(words(6)).layer(2)
    dequantized = load(network.dequantize(), TOKENIZER).trace(words(6)).layer(2)
    torch.testing.assert_close(layer.projection, dequantized.projection.float(), atol=1e-2, rtol=1e-2)


def test_weights_without_numbers_are_rejected():
    with pytest.raises(UnsupportedModelError, match=r"no data for embeddings\.word_embeddings\.weight"):
        load(build("bert", SERVED["bert"]).to("meta"), TOKENIZER)


def test_a_module_that_is_not_a_transformers_model_is_rejected():
    with pytest.raises(InputError, match=r"got Linear; wrap it as docs/models\.md shows"):
        load(nn.Linear(2, 2), TOKENIZER)


def test_code_that_comes_with_a_model_is_not_run_unless_allowed(tmp_path):
    network = build("bert", SERVED["bert"])
    network.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    settings |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.MyConfig", "AutoModel": "mine.MyModel"}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "from transformers import BertConfig, BertModel\n"
        "class MyConfig(BertConfig):\n    model_type = 'mine'\n"
        "class MyModel(BertModel):\n    config_class = MyConfig\n"
    )
    with pytest.raises(ModelError, match=r"was not run.*allow_code=True"):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()
    assert load(tmp_path, allow_code=True).trace(words(4)).layer(1).weights.shape == (4, 6, 6)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_a_model_that_is_dispatched_to_devices_keeps_its_hooks(family):
    accelerate = pytest.importorskip("accelerate")
    settings = {**SERVED, **OUTSIDE_THE_INTERFACE}[family]
    expected = load(build(family, settings), TOKENIZER).trace(words(6)).layer(2).weights
    network = accelerate.dispatch_model(build(family, settings), {"": "cpu"}, force_hooks=True)
    before = [vars(module).get("forward") for module in network.modules()]
    assert torch.equal(load(network, TOKENIZER).trace(words(6)).layer(2).weights, expected)
    assert [vars(module).get("forward") for module in network.modules()] == before
    assert any(before)
