"""Files that could run code are not read unless the user allows it, and no prompt asks for that."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from identiformer.errors import ModelError
from identiformer.models import load
from tests.models.families import SERVED, build, word_tokenizer
from tests.models.gguf_file import write_gguf


class Hostile:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "code-was-run"


@pytest.fixture
def folder(tmp_path):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path / "tiny", max_shard_size="20KB")
    word_tokenizer().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def index_of(folder):
    return json.loads((folder / "model.safetensors.index.json").read_text())


def write_index(folder, shards):
    index = index_of(folder)
    index["weight_map"] = dict(zip(index["weight_map"], shards * 100, strict=False))
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_shards_in_safetensors_load(folder):
    assert len(set(index_of(folder)["weight_map"].values())) > 1
    assert load(folder).trace("w1 w2").tokens[1] == "w1"


@pytest.mark.parametrize("shard", ["weights.bin", "weights.safetensors", "../weights.safetensors", "../weights.bin", 7])
def test_an_index_cannot_lead_to_a_pickle(folder, mark, shard):
    write_index(folder, [shard])
    (folder / str(shard)).write_bytes(pickle.dumps({"weight": Hostile(mark)}))
    with pytest.raises(ModelError, match=r"pickle|own folder"):
        load(folder)
    assert not mark.exists()


def test_an_index_cannot_lead_out_of_the_folder(folder):
    for shard in set(index_of(folder)["weight_map"].values()):
        shutil.move(folder / shard, folder.parent / shard)
    write_index(folder, [f"../{path.name}" for path in folder.parent.glob("*.safetensors")])
    with pytest.raises(ModelError, match="own folder"):
        load(folder)


@pytest.mark.parametrize("save", [torch.save, lambda weights, path: path.write_bytes(pickle.dumps(weights))])
def test_a_renamed_pickle_is_not_read(tmp_path, mark, save):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    save({"weight": Hostile(mark)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"model\.safetensors .* is a renamed Python pickle"):
        load(tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["weights.bin", "../weights.safetensors", "/weights.safetensors"])
def test_a_configuration_cannot_name_a_pickle(folder, name):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "transformers_weights": name}))
    (folder / "weights.bin").write_bytes(b"\x80")
    with pytest.raises(ModelError, match=r"pickle|own folder"):
        load(folder)


def test_adapters_next_to_a_model_are_put_on_the_one_that_they_name(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "elsewhere", "peft_type": "LORA"}))
    with pytest.raises(ModelError, match="elsewhere is not a folder"):
        load(folder)


def test_attention_code_from_the_hub_is_not_fetched(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attn_implementation": "someone/attention"}))
    with pytest.raises(ModelError, match="someone/attention"):
        load(folder)


def hostile_code(folder, mark):
    """Code for a tokenizer and a model, which leaves a mark when it is imported."""
    (folder / "hostile.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\n")
    names = {"AutoTokenizer": ["hostile.Tokenizer", "hostile.Tokenizer"], "AutoConfig": "hostile.C", "AutoModel": "hostile.M"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": names, "tokenizer_class": "Tokenizer"}))
    return names


def test_code_next_to_a_model_is_never_run_by_a_prompt(folder, tmp_path, mark):
    names = hostile_code(folder, mark)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "hostile", "auto_map": names}))
    (tmp_path / "gguf").mkdir()
    hostile_code(tmp_path / "gguf", mark)
    paths = [str(folder), str(write_gguf(tmp_path / "gguf" / "tiny.gguf"))]
    code = f"""
from identiformer.errors import ModelError
from identiformer.models import load
for path in {paths!r}:
    try:
        load(path)
    except ModelError as error:
        print("rejected:", error)
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], input="y\n" * 20, capture_output=True, text=True, env=environment, timeout=250
    )
    assert not mark.exists()
    assert ran.returncode == 0, ran.stderr
    assert "[y/N]" not in ran.stdout + ran.stderr
    assert ran.stdout.count("allow_code=True") == 2, ran.stdout
