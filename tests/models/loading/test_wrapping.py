"""Models that come wrapped work, or are refused with the reason."""

import json

import peft
import pytest
import torch
import transformers
from torch import nn

from identiformer.errors import InputError, ModelError, UnsupportedModelError
from identiformer.models import load
from tests.models.families import BESIDE_THE_INTERFACE, SERVED, build, word_tokenizer, words

TOKENIZER = word_tokenizer()


@pytest.mark.parametrize("family", ["bert", "llama", "gemma2", "deberta-v2", "mpnet", "gptj", "longformer"])
def test_half_precision_is_recorded_as_it_is(family):
    network = build(family, {**SERVED, **BESIDE_THE_INTERFACE}[family]).half()
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
    """A model with adapters that change what it gives."""
    settings = peft.LoraConfig(target_modules=["query", "value"], init_lora_weights=False)
    return peft.get_peft_model(build("bert", SERVED["bert"]), settings).eval()


def test_adapters_are_to_be_merged_first(adapted):
    with pytest.raises(UnsupportedModelError, match="merge_and_unload"):
        load(adapted, TOKENIZER)
    adapted.get_base_model().set_attn_implementation("eager")  # which gives out its weights
    inputs = TOKENIZER(words(6), return_tensors="pt")
    with torch.no_grad():
        told = adapted(**inputs, output_attentions=True).attentions[1][0]
    merged = load(adapted.merge_and_unload(), TOKENIZER)
    torch.testing.assert_close(merged.trace(words(6)).layer(2).weights, told, atol=1e-5, rtol=1e-5)


def test_prompts_that_were_learned_are_no_tokens():
    settings = peft.PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    network = peft.get_peft_model(build("gpt2", SERVED["gpt2"]), settings)
    with pytest.raises(UnsupportedModelError, match="get_base_model"):
        load(network, TOKENIZER)
    assert len(load(network.get_base_model(), TOKENIZER).trace(words(6)).tokens) == 8


@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantized_model_is_to_be_dequantized_first(tmp_path, bits):
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes: pip install bitsandbytes")
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    settings = transformers.BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    network = transformers.AutoModel.from_pretrained(tmp_path, quantization_config=settings)
    with pytest.raises(UnsupportedModelError, match=r"quantized weights.*dequantize\(\)"):
        load(network, TOKENIZER)
    assert load(network.dequantize(), TOKENIZER).trace(words(6)).layer(2).weights.shape == (4, 8, 8)


def test_quantized_weights_and_weights_on_disk_are_refused():
    network = build("bert", SERVED["bert"])
    linear = network.encoder.layer[0].output.dense
    linear.weight = nn.Parameter(linear.weight.mul(100).to(torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedModelError, match=r"encoder\.layer\.0\.output\.dense\.weight is int8.*dequantized"):
        load(network, TOKENIZER)
    with pytest.raises(UnsupportedModelError, match="without offloading"):
        load(build("bert", SERVED["bert"]).to("meta"), TOKENIZER)


def test_what_is_no_model_of_transformers_is_refused():
    with pytest.raises(InputError, match=r"got Linear; wrap it in ten lines.*docs/models\.md"):
        load(nn.Linear(2, 2), TOKENIZER)


def test_code_that_comes_with_a_model_is_not_run_unless_asked(tmp_path):
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
    settings = {**SERVED, **BESIDE_THE_INTERFACE}[family]
    expected = load(build(family, settings), TOKENIZER).trace(words(6)).layer(2).weights
    network = accelerate.dispatch_model(build(family, settings), {"": "cpu"}, force_hooks=True)
    before = [vars(module).get("forward") for module in network.modules()]
    assert torch.equal(load(network, TOKENIZER).trace(words(6)).layer(2).weights, expected)
    assert [vars(module).get("forward") for module in network.modules()] == before
    assert any(before)
