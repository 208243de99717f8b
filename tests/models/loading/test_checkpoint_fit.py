"""Missing, renamed and misshaped weights are rejected by name; weights of heads may be missing."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from identiformer.errors import ModelError, ModelWarning
from identiformer.models import load
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer

# Of each family: its settings, the attention weights of one layer, and a model with a task head.
FAMILIES = {
    "bert": (SERVED, "encoder.layer.1.attention.self.query", "BertForMaskedLM"),
    "roberta": (SERVED, "encoder.layer.0.attention.self.key", "RobertaForMaskedLM"),
    "distilbert": (SERVED, "transformer.layer.1.attention.q_lin", "DistilBertForMaskedLM"),
    "albert": (SERVED, "encoder.albert_layer_groups.0.albert_layers.0.attention.query", "AlbertForMaskedLM"),
    "electra": (SERVED, "encoder.layer.1.attention.self.value", "ElectraForMaskedLM"),
    "modernbert": (SERVED, "layers.1.attn.Wqkv", "ModernBertForMaskedLM"),
    "deberta-v2": (OUTSIDE_THE_INTERFACE, "encoder.layer.0.attention.self.query_proj", "DebertaV2ForMaskedLM"),
    "gpt2": (SERVED, "h.1.attn.c_attn", "GPT2LMHeadModel"),
    "llama": (SERVED, "layers.1.self_attn.k_proj", "LlamaForCausalLM"),
    "gpt_neox": (SERVED, "layers.0.attention.query_key_value", "GPTNeoXForCausalLM"),
    "t5": (ENCODER_DECODERS, "decoder.block.1.layer.1.EncDecAttention.q", "T5ForConditionalGeneration"),
    "bart": (ENCODER_DECODERS, "encoder.layers.1.self_attn.v_proj", "BartForConditionalGeneration"),
}


def lacking_a_layer(weights, attention):
    return {name: tensor for name, tensor in weights.items() if not name.startswith(attention)}


def lacking_embeddings(weights, attention):
    del attention
    words = next(name for name, tensor in weights.items() if tensor.shape[0] == 100)
    return {name: tensor for name, tensor in weights.items() if name != words}


def renamed(weights, attention):
    del attention
    return {f"renamed.{name}": tensor for name, tensor in weights.items()}


def misshaped(weights, attention):
    return {name: tensor[..., :-1].clone() if name.startswith(attention) else tensor for name, tensor in weights.items()}


def one_stray_tensor(weights, attention):
    del weights, attention
    return {"stray": torch.zeros(3)}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """A model of a family in a folder, and its weights as they are stored."""
    folder = tmp_path_factory.mktemp(request.param)
    settings, attention, head = FAMILIES[request.param]
    network = build(request.param, settings[request.param])
    network.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder, load_file(folder / "model.safetensors"), attention, head


@pytest.mark.parametrize("change", [lacking_a_layer, lacking_embeddings, renamed, misshaped, one_stray_tensor])
def test_weights_that_do_not_fit_are_rejected_by_name(family, change):
    folder, weights, attention, _ = family
    changed = change(weights, attention)
    save_file(changed, folder / "model.safetensors", {"format": "pt"})
    lost = [name for name in weights if name not in changed or changed[name].shape != weights[name].shape]
    with pytest.raises(ModelError) as caught:
        load(folder)
    message = str(caught.value)
    assert any(name in message for name in lost), message
    assert str(folder) in message
    assert "\n" not in message


def test_a_head_does_not_change_the_weights_of_its_backbone(family, tmp_path):
    folder, weights, _, head = family
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    network = getattr(transformers, head).from_pretrained(folder)
    network.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    loaded = load(tmp_path).backbone.state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items() if name in loaded and "pooler" not in name)
    assert len(loaded.keys() & weights.keys()) > 10


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_classifier_is_traced(name, tmp_path):
    config = build(name, SERVED[name]).config
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    assert load(tmp_path).trace("w1 w2").tokens[1] == "w1"


def test_a_vision_model_may_lack_its_pooler_but_not_its_patch_embedding(tmp_path):
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    network = build("vit", {**small, "image_size": 32, "patch_size": 8})
    weights = {name: tensor for name, tensor in network.state_dict().items() if not name.startswith("pooler")}
    network.save_pretrained(tmp_path, state_dict=weights)
    assert load(tmp_path).trace(torch.randn(3, 32, 32)).tokens[0] == "[CLS]"
    weights.pop("embeddings.patch_embeddings.projection.weight")
    network.save_pretrained(tmp_path, state_dict=weights)
    with pytest.raises(ModelError, match=r"embeddings\.patch_embeddings\.projection\.weight"):
        load(tmp_path)


def test_unused_layers_in_the_files_are_reported(tmp_path):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.warns(ModelWarning, match=r"does not use, such as encoder\.layer\.1\..* and 15 more"):
        load(tmp_path)


def test_checking_the_weights_leaves_the_model_unchanged(tmp_path):
    network = build("bert", SERVED["bert"])
    network.save_pretrained(tmp_path, state_dict={k: v for k, v in network.state_dict().items() if "pooler" not in k})
    word_tokenizer().save_pretrained(tmp_path)
    loaded = load(tmp_path).network
    assert all(parameter.requires_grad and parameter.grad is None for parameter in loaded.parameters())
    assert not any(module._forward_hooks for module in loaded.modules())


QUERIES = {"bert": "encoder.layer.1.attention.self.query", "llama": "layers.1.self_attn.q_proj", "gpt2": "h.1.attn.c_attn"}


@pytest.fixture(params=QUERIES)
def stored(request, tmp_path):
    """A small model in a folder, its weights, and the name of a module with queries."""
    build(request.param, SERVED[request.param]).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    return tmp_path, load_file(tmp_path / "model.safetensors"), QUERIES[request.param]


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64, torch.bool, torch.complex64])
def test_weights_that_are_not_real_numbers_are_rejected_by_name(stored, dtype, pickled):
    folder, weights, query = stored
    key = f"{query}.weight"
    weights[key] = (100 * weights[key]).to(dtype)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=rf"expected real numbers for {key} in .* no quantization_config, got \w+; get"):
        load(folder, allow_pickle=pickled)


@pytest.mark.parametrize(
    ("family", "tables", "bias"),
    [
        ("bert", {"embeddings.position_ids": torch.arange(9)[None]}, "embeddings.LayerNorm.bias"),
        ("gpt2", {"h.1.attn.bias": torch.ones(1, 1, 9, 9, dtype=torch.bool)}, "h.1.ln_1.bias"),
    ],
)
def test_a_bias_of_integers_is_rejected_but_not_positions_and_masks(tmp_path, family, tables, bias):
    network = build(family, SERVED[family])
    network.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    weights = {**network.state_dict(), **tables}
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    assert len(load(tmp_path).trace("w1 w2").tokens) == 4
    save_file({**weights, bias: weights[bias].to(torch.int8)}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"real numbers for {bias}"):
        load(tmp_path)


@pytest.mark.parametrize("all_prefixed", [False, True])
def test_two_copies_of_a_weight_are_rejected(stored, all_prefixed):
    folder, weights, query = stored
    prefix = load(folder).network.base_model_prefix
    key = f"{query}.weight"
    other = torch.randn_like(weights[key])
    if all_prefixed:
        weights = {f"{prefix}.{name}": tensor for name, tensor in weights.items()} | {key: other}
    else:
        weights[f"{prefix}.{key}"] = other
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"expected one copy of each weight in .*{prefix}.{key}.*; remove one"):
        load(folder)


def test_an_old_and_a_new_name_of_one_weight_are_rejected(tmp_path):
    network = build("bert", SERVED["bert"])
    weights = network.state_dict()
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in weights.items()}
    word_tokenizer().save_pretrained(tmp_path)
    network.save_pretrained(tmp_path)
    save_file(old, tmp_path / "model.safetensors", {"format": "pt"})
    assert len(load(tmp_path).trace("w1 w2").tokens) == 4
    save_file({**weights, "embeddings.LayerNorm.gamma": torch.zeros(32)}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"got embeddings\.LayerNorm\.gamma and embeddings\.LayerNorm\.weight"):
        load(tmp_path)
