"""Adapters of every kind that peft saves: loaded as peft itself loads them, or rejected with what to do."""

import json
import pickle
import time

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from identiformer.errors import ModelError, ModelWarning, UnsupportedModelError
from identiformer.models import load
from tests.models.families import SERVED, word_tokenizer, words

TARGETS = ["q_proj", "v_proj", "o_proj"]
TEXT = words(9)


def lora(**options):
    return peft.LoraConfig(task_type="CAUSAL_LM", **{"r": 4, "target_modules": TARGETS, **options})


def other(kind, **options):
    return getattr(peft, kind)(task_type="CAUSAL_LM", **{"target_modules": TARGETS, **options})


KINDS = {
    "plain": lora,
    "gaussian": lambda: lora(init_lora_weights="gaussian"),
    "PiSSA": lambda: lora(init_lora_weights="pissa"),
    "PiSSA with DoRA": lambda: lora(init_lora_weights="pissa", use_dora=True),
    "OLoRA": lambda: lora(init_lora_weights="olora"),
    "EVA": lambda: lora(init_lora_weights="eva", eva_config=peft.EvaConfig()),
    "orthogonal": lambda: lora(init_lora_weights="orthogonal"),
    "DoRA": lambda: lora(use_dora=True),
    "rsLoRA": lambda: lora(use_rslora=True),
    "ranks by module": lambda: lora(rank_pattern={"q_proj": 2}, alpha_pattern={"o_proj": 32}),
    "biases": lambda: lora(bias="all", lora_bias=True, target_modules=["q_proj"]),
    "whole modules": lambda: lora(modules_to_save=["input_layernorm"]),
    "embeddings": lambda: lora(target_modules=["embed_tokens", "q_proj"]),
    "tokens": lambda: lora(trainable_token_indices=[6, 7]),
    "AdaLoRA": lambda: other("AdaLoraConfig", total_step=10),
    "FourierFT": lambda: other("FourierFTConfig", n_frequency=50),
    "IA3": lambda: other("IA3Config", target_modules=["q_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "LoHa": lambda: other("LoHaConfig", init_weights=False),
    "LoKr": lambda: other("LoKrConfig", init_weights=False),
    "OFT": lambda: other("OFTConfig", oft_block_size=4),
    "VeRA": lambda: other("VeraConfig", target_modules=["q_proj", "o_proj"]),
}
if hasattr(peft.LoraConfig, "kasa_config"):  # both came with one version of peft
    KINDS["MiCA"] = lambda: lora(init_lora_weights="mica")
    KINDS["KaSA"] = lambda: lora(kasa_config={"beta": 1e-4})
IN_HALF = ("plain", "PiSSA", "OLoRA", "DoRA", "whole modules", "AdaLoRA")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SERVED["llama"]))
    for name, weights in network.named_parameters():  # scores that differ, so that attention shows a wrong weight
        if name.endswith("q_proj.weight"):
            weights.data *= 30
    network.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


def plain_network(base, dtype=torch.float32):
    return transformers.AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager", dtype=dtype)


def train(base, settings, dtype=torch.float32):
    torch.manual_seed(1)
    adapted = peft.get_peft_model(plain_network(base, dtype), settings)
    for name, parameter in adapted.named_parameters():
        if parameter.requires_grad and "ranknum" not in name:  # which peft does not save
            parameter.data += 0.1 * torch.randn(parameter.shape).to(parameter)
    return adapted.eval()


def attention(network):
    with torch.no_grad():
        inputs = word_tokenizer()(TEXT, return_tensors="pt")
        return torch.stack(network.eval()(**inputs, output_attentions=True).attentions)[:, 0]


def recorded(model):
    return torch.stack([layer.weights for layer in model.trace(TEXT).stack().layers])


def edit(folder, **changes):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.filterwarnings("ignore")  # of peft
@pytest.mark.parametrize(("kind", "dtype"), [*((kind, "float32") for kind in KINDS), *((kind, "bfloat16") for kind in IN_HALF)])
def test_attention_is_that_of_the_trained_model_and_of_pefts_own_loading(base, tmp_path, kind, dtype):
    precision = getattr(torch, dtype)
    trained = train(base, KINDS[kind](), precision)
    trained.save_pretrained(tmp_path)
    peft_loads = peft.PeftModel.from_pretrained(plain_network(base, precision), tmp_path)
    model = load(tmp_path, dtype=dtype)
    assert (attention(trained) - attention(plain_network(base, precision))).abs().max() > 2e-3
    assert (recorded(model) - attention(peft_loads)).abs().max() <= 1e-6
    assert (recorded(model) - attention(trained)).abs().max() <= 1e-6


@pytest.mark.parametrize("kind", ["PiSSA", "KaSA", "VeRA"])
def test_adapters_are_sent_to_another_process_or_the_reason_is_given(base, tmp_path, kind):
    if kind not in KINDS:
        pytest.skip("needs a newer peft")
    train(base, KINDS[kind]()).save_pretrained(tmp_path)
    model = load(tmp_path)
    if kind == "VeRA":
        with pytest.raises(UnsupportedModelError, match=r"adapters that peft cannot build in a copy.*pass the name of the model"):
            pickle.dumps(model)
    else:
        sent = pickle.loads(pickle.dumps(model))
        assert sent.revision == model.revision
        assert torch.equal(recorded(sent), recorded(model))


@pytest.mark.parametrize("start", ["pissa_niter_4", "corda", "loftq", "lora_ga", "next_year"])
def test_adapters_of_weights_that_cannot_be_computed_again_are_rejected(base, tmp_path, start):
    train(base, lora()).save_pretrained(tmp_path)
    edit(tmp_path, init_lora_weights=start, loftq_config={"loftq_bits": 4, "loftq_iter": 1} if start == "loftq" else {})
    with pytest.raises(ModelError, match=rf"trained on weights that '{start}' changed.*path_initial_model_for_weight_conversion"):
        load(tmp_path)


def test_adapters_of_a_random_decomposition_are_loaded_once_they_are_converted(base, tmp_path):
    torch.manual_seed(1)
    trained = peft.get_peft_model(plain_network(base), lora(init_lora_weights="pissa_niter_4"))
    trained.save_pretrained(tmp_path / "start")
    for name, parameter in trained.named_parameters():
        if "lora" in name:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    trained.eval().save_pretrained(tmp_path / "end", path_initial_model_for_weight_conversion=str(tmp_path / "start"))
    assert (recorded(load(tmp_path / "end")) - attention(trained)).abs().max() <= 1e-6


@pytest.mark.parametrize("options", [{"device_map": "disk"}, {"dtype": "float64"}])
def test_a_part_of_a_weight_is_taken_out_in_memory_in_32_bits(base, tmp_path, options):
    train(base, lora(init_lora_weights="olora")).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"load them without device_map and with dtype='float32'"):
        load(tmp_path, **options)


def test_adapters_that_apply_after_certain_tokens_are_rejected(base, tmp_path):
    trained = train(base, lora(alora_invocation_tokens=[7, 8]))
    with pytest.raises(UnsupportedModelError, match="aLoRA"):
        load(trained, word_tokenizer())
    trained.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="aLoRA"):
        load(tmp_path)
    assert (recorded(load(trained.unload(), word_tokenizer())) - attention(plain_network(base))).abs().max() <= 1e-6


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), -8, 0])
def test_a_scaling_that_is_not_positive_and_finite_is_rejected(base, tmp_path, alpha):
    train(base, lora()).save_pretrained(tmp_path)
    edit(tmp_path, lora_alpha=alpha)
    with pytest.raises(ModelError, match=r"scaled by a positive number, got .* at model\.layers\.0\.self_attn\.q_proj; repair"):
        load(tmp_path)


def test_a_large_scaling_is_reported(base, tmp_path):
    train(base, lora()).save_pretrained(tmp_path)
    edit(tmp_path, lora_alpha=2000)
    with pytest.warns(ModelWarning, match=r"scaled by 500 at model\.layers\.0\.self_attn\.q_proj"):
        load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64])
def test_adapters_that_are_not_real_numbers_are_rejected(base, tmp_path, dtype):
    train(base, lora()).save_pretrained(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    stored = load_file(path)
    key = min(stored)
    save_file({**stored, key: stored[key].to(dtype)}, path)
    with pytest.raises(ModelError, match=rf"they hold \(4, 32\) of {str(dtype).removeprefix('torch.')} and the model expects"):
        load(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": r"([a-z_.\d]+)*\$"},
        pytest.param({"target_modules": ".*" * 20 + "!"}, marks=pytest.mark.slow),
        pytest.param({"exclude_modules": r"(\w|\w\w|\.)*!"}, marks=pytest.mark.slow),
        {"rank_pattern": {r"([a-z_.\d]+)*\$": 4}},
    ],
)
def test_patterns_that_would_match_for_hours_are_rejected_in_seconds(base, tmp_path, monkeypatch, settings):
    train(base, lora()).save_pretrained(tmp_path)
    edit(tmp_path, **settings)
    monkeypatch.setattr("identiformer.models.loading.adapters.SECONDS", 1)
    begin = time.monotonic()
    with pytest.raises(ModelError, match=r"patterns in the adapter_config\.json .* within 1 seconds.*list the modules by name"):
        load(tmp_path)
    assert time.monotonic() - begin < 20


def test_an_ordinary_pattern_is_matched(base, tmp_path):
    trained = train(base, lora(target_modules=r".*self_attn\.(q|o)_proj"))
    trained.save_pretrained(tmp_path)
    assert (recorded(load(tmp_path)) - attention(trained)).abs().max() <= 1e-6
