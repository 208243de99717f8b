"""Device maps: models whose weights are on disk run, are recorded and are told apart as those in memory."""

import copy
import gc
import json
import pickle
import tempfile
import threading

import peft
import pytest
import torch
import transformers
from torch import nn

import identiformer as idf
from identiformer.errors import InputError, MissingPackageError, ModelError, UnsupportedModelError
from identiformer.models import load
from identiformer.models.linear_maps import matrix_of
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama in several shards."""
    path = tmp_path_factory.mktemp("sharded")
    torch.manual_seed(0)
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SERVED["llama"])).eval()
    network.save_pretrained(path, max_shard_size="30KB")
    word_tokenizer().save_pretrained(path)
    assert len(list(path.glob("*.safetensors"))) > 2
    return path


@pytest.fixture(scope="module")
def in_memory(folder):
    return load(folder)


@pytest.fixture(scope="module")
def on_disk(folder):
    return load(folder, device_map="disk")


def test_a_model_on_disk_is_traced_as_one_in_memory(in_memory, on_disk):
    assert all(parameter.is_meta for parameter in on_disk.network.parameters())
    assert on_disk.revision == in_memory.revision
    expected, trace = (model.trace(words(9)) for model in (in_memory, on_disk))
    for number in (1, 2):
        for name in ("weights", "values", "projection", "value_bias", "lossy_heads"):
            expected_part, part = (getattr(each.layer(number), name) for each in (expected, trace))
            assert torch.equal(torch.as_tensor(part), torch.as_tensor(expected_part)), name
    assert all(parameter.is_meta for parameter in on_disk.network.parameters())


def test_measures_and_patched_runs_hold_on_disk(in_memory, on_disk):
    trace = on_disk.trace(words(20))
    layer = trace.layer(1)
    values = layer.values.double().repeat_interleave(2, 0) @ layer.projection.double()
    effective = layer.effective().matrices().double()
    torch.testing.assert_close(effective @ values, layer.weights.double() @ values, atol=1e-6, rtol=1e-5)
    changed = layer.weights[0].flip(0).tril()
    changed /= changed.sum(-1, keepdim=True)
    expected = in_memory.rerun(in_memory.trace(words(20)), {(1, 0): changed}).output
    assert on_disk.rerun(trace, {(1, 0): changed}).output == expected
    assert expected.patched > 0
    assert on_disk.generate("w1 w2 w3", max_new_tokens=4).text == in_memory.generate("w1 w2 w3", max_new_tokens=4).text


@pytest.mark.parametrize("tied", [True, False])
def test_threads_share_a_model_on_disk(tmp_path, tied):
    config = transformers.LlamaConfig(**SERVED["llama"], tie_word_embeddings=tied)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    model = load(tmp_path, device_map="disk")
    expected = model.network(torch.tensor([[3, 4, 5]])).logits
    wrong = []

    def run():
        for _ in range(5):
            replica = idf.models.replica.replica_of(model.network)
            wrong.append(not torch.equal(replica(torch.tensor([[3, 4, 5]])).logits, expected))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 20
    assert not any(wrong)


def test_a_matrix_is_read_without_staying_in_memory(on_disk, in_memory):
    module = on_disk.network.model.layers[0].self_attn.o_proj
    matrix = matrix_of(module, 32, torch.empty(0))
    assert torch.equal(matrix, in_memory.network.model.layers[0].self_attn.o_proj.weight.mT)
    assert module.weight.is_meta
    assert hasattr(module, "_hf_hook")


def test_weights_in_half_precision_are_converted_when_they_are_brought_in(tmp_path, in_memory):
    copy.deepcopy(in_memory.network).to(torch.bfloat16).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    models = (load(tmp_path, dtype="float32", **where) for where in ({}, {"device_map": "disk"}))
    expected, layer = (model.trace(words(5)).layer(2) for model in models)
    assert layer.values.dtype == torch.float32
    assert torch.equal(layer.values, expected.values)


def test_a_part_of_a_model_is_on_disk(folder, in_memory):
    model = load(folder, device_map={"": "cpu", "model.layers.1": "disk"})
    assert [parameter.is_meta for parameter in model.network.model.layers[1].parameters()] == [True] * 9
    assert not any(parameter.is_meta for parameter in model.network.model.layers[0].parameters())
    assert torch.equal(model.trace(words(5)).layer(2).values, in_memory.trace(words(5)).layer(2).values)


def test_the_folder_of_offloaded_weights_goes_with_the_model(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = load(folder, device_map="disk")
    assert len(list(tmp_path.iterdir())) == 1
    del model
    gc.collect()
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError):
        load(folder, device_map={"nowhere": "disk"})
    assert not list(tmp_path.iterdir())


def test_maps_that_accelerate_chooses_fit_in_memory_here(folder, in_memory):
    assert load(folder, device_map="auto").revision == in_memory.revision


@pytest.mark.parametrize(
    ("device_map", "message"),
    [
        ("nowhere", r"a device map of auto, balanced, .*or disk, got 'nowhere'\."),
        ({"model.layers": "cpu", "": "cuda:7"}, r"got 'cuda:7'\."),
        ({"model.layers": "nowhere", "": "cpu"}, r"got 'nowhere' for model\.layers\."),
        ({"model.layer": "disk", "": "cpu"}, r"expected parts of LlamaForCausalLM .*model\.layers.*got 'model\.layer'"),
        ({"model.layers": "disk"}, r"got none for model\.embed_tokens; add '' for all others"),
    ],
)
def test_device_maps_that_cannot_be_used_are_rejected(folder, device_map, message):
    with pytest.raises(InputError, match=message):
        load(folder, device_map=device_map)


def test_nan_on_disk_is_found(tmp_path):
    network = build("bert", SERVED["bert"])
    network.encoder.layer[1].output.dense.weight.data[0, 0] = float("nan")
    network.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"NaN or infinite weights in encoder\.layer\.1\.output\.dense\.weight"):
        load(tmp_path, device_map="disk")


def test_a_revision_belongs_to_the_hub(folder):
    with pytest.raises(InputError, match="expected a revision of a model on the hub"):
        load(folder, revision="main")
    with pytest.raises(ModelError, match=r"no-such/model at v2 is not a folder.*hf download no-such/model --revision v2"):
        load("no-such/model", revision="v2")


@pytest.mark.parametrize(
    ("method", "package"), [("bitsandbytes", "bitsandbytes"), ("gptq", "gptqmodel"), ("compressed-tensors", "compressed-tensors")]
)
def test_a_missing_quantization_backend_is_named(tmp_path, monkeypatch, method, package):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": method}}))
    monkeypatch.setattr("identiformer.models.loading.pretrained._is_installed", lambda package: False)
    with pytest.raises(MissingPackageError, match=rf"quantized by {method}, .* pip install {package}$"):
        load(tmp_path)


def save_adapters(folder, path, **changes):
    settings = peft.LoraConfig(target_modules=["q_proj", "o_proj"], init_lora_weights=False, task_type="CAUSAL_LM", **changes)
    adapted = peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(folder), settings).eval()
    adapted.save_pretrained(path)
    return adapted


@pytest.mark.parametrize("options", [{}, {"device_map": "disk"}])
def test_adapters_are_put_on_the_model_that_they_name(folder, tmp_path, options):
    adapted = save_adapters(folder, tmp_path)
    model = load(tmp_path, **options)
    merged = load(adapted.merge_and_unload(), word_tokenizer())
    ids = torch.tensor([[3, 4, 5, 6]])
    torch.testing.assert_close(model.network(ids).logits, merged.network(ids).logits, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        model.trace(words(6)).layer(2).projection, merged.trace(words(6)).layer(2).projection, atol=1e-6, rtol=0
    )
    assert model.revision not in (load(folder).revision, merged.revision)


@pytest.mark.parametrize("state", ["active", "disabled", "merged"])
def test_adapted_models_are_sent_to_other_processes(folder, state):
    settings = peft.LoraConfig(target_modules=["q_proj", "o_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(folder), settings).eval()
    if state == "disabled":
        adapted.base_model.disable_adapter_layers()
    if state == "merged":
        adapted.merge_adapter()
    model = load(adapted, word_tokenizer())
    sent = pickle.loads(pickle.dumps(model))
    assert sent.revision == model.revision
    ids = torch.tensor([[3, 4, 5, 6]])
    torch.testing.assert_close(sent.network(ids).logits, adapted(ids).logits, atol=0, rtol=0)


def test_models_that_cannot_be_sent_to_other_processes_say_so(on_disk, folder):
    with pytest.raises(UnsupportedModelError, match=r"keeps weights on disk.*pass the name"):
        pickle.dumps(on_disk)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder)
    network.model.layers[0].self_attn.o_proj = nn.Sequential(network.model.layers[0].self_attn.o_proj)
    with pytest.raises(UnsupportedModelError, match="modules that its configuration does not describe"):
        pickle.dumps(load(network, word_tokenizer()))


def test_adapters_of_another_model_are_rejected_with_the_mismatch(folder, tmp_path):
    save_adapters(folder, tmp_path / "adapters")
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SERVED["llama"], "hidden_size": 48}))
    network.save_pretrained(tmp_path / "other")
    word_tokenizer().save_pretrained(tmp_path / "other")
    config = tmp_path / "adapters" / "adapter_config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({**settings, "base_model_name_or_path": str(tmp_path / "other")}))
    with pytest.raises(ModelError, match=r"o_proj\.lora_B\.weight they hold \(32, 8\) and the model expects \(48, 8\)"):
        load(tmp_path / "adapters")
    config.write_text(json.dumps({**settings, "target_modules": ["c_attn"]}))
    with pytest.raises(ModelError, match=r"do not fit .*c_attn.* not found"):
        load(tmp_path / "adapters")
    config.write_text(json.dumps({**settings, "base_model_name_or_path": None}))
    with pytest.raises(ModelError, match=r"expected the name of a model in the adapter_config\.json"):
        load(tmp_path / "adapters")
    config.write_text(json.dumps({**settings, "base_model_name_or_path": str(tmp_path / "adapters")}))
    with pytest.raises(ModelError, match="holds adapters itself"):
        load(tmp_path / "adapters")


def test_adapters_in_a_pickle_or_of_learned_prompts_are_rejected(folder, tmp_path):
    save_adapters(folder, tmp_path / "lora")
    (tmp_path / "lora" / "adapter_model.safetensors").rename(tmp_path / "lora" / "adapter_model.bin")
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors"):
        load(tmp_path / "lora")
    settings = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(folder), settings).save_pretrained(tmp_path / "prompt")
    with pytest.raises(UnsupportedModelError, match="learned vectors"):
        load(tmp_path / "prompt")
