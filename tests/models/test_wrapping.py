"""Models that come wrapped work, or are refused with the reason."""

import json

import pytest
import torch
from torch import nn

from identiformer.errors import InputError, ModelError, UnsupportedModelError
from identiformer.models import load
from tests.models.families import BESIDE_THE_INTERFACE, SERVED, build, word_tokenizer, words

TOKENIZER = word_tokenizer()


@pytest.mark.parametrize("family", ["bert", "llama", "gemma2", "deberta-v2", "mpnet", "gptj", "longformer"])
def test_half_precision_is_recorded_as_it_is(family):
    network = build(family, {**SERVED, **BESIDE_THE_INTERFACE}[family]).half()
    layers = load(network, TOKENIZER).trace(words(11)).part().layers
    for layer in layers:
        assert layer.values.dtype == torch.float16
        torch.testing.assert_close(layer.weights.float().sum(-1), torch.ones(4, 13), atol=3e-3, rtol=0)


def test_a_compiled_model_is_recorded_uncompiled():
    network = build("bert", SERVED["bert"])
    expected = load(network, TOKENIZER).trace(words(6)).layer(2).weights
    assert torch.equal(load(torch.compile(network), TOKENIZER).trace(words(6)).layer(2).weights, expected)
    network.compile()
    compiled = network._compiled_call_impl
    assert torch.equal(load(network, TOKENIZER).trace(words(6)).layer(2).weights, expected)
    assert network._compiled_call_impl is compiled


class Adapted(nn.Module):
    """As peft's layers are: a map beside the one that is there."""

    def __init__(self, base_layer):
        super().__init__()
        self.base_layer = base_layer
        self.added = nn.Linear(32, 32, bias=False)

    def merge(self): ...

    def forward(self, given):
        return self.base_layer(given) + self.added(given)


def test_adapters_are_to_be_merged_first():
    network = build("bert", SERVED["bert"])
    dense = network.encoder.layer[0].attention.output
    dense.dense = Adapted(dense.dense)
    with pytest.raises(UnsupportedModelError, match="merge_and_unload"):
        load(network, TOKENIZER)


def test_quantised_weights_and_weights_on_disk_are_refused():
    network = build("bert", SERVED["bert"])
    linear = network.encoder.layer[0].output.dense
    linear.weight = nn.Parameter(linear.weight.mul(100).to(torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedModelError, match=r"encoder\.layer\.0\.output\.dense\.weight is int8.*dequantised"):
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
