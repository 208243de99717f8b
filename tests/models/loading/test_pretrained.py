"""Broken and hostile model files are rejected in one sentence, quickly, and without filling the memory."""

import json
import os
import resource
import time

import gguf
import pytest
import torch

from identiformer.errors import IdentiformerError, InputError, ModelError
from identiformer.models import load
from identiformer.models.library_output import model_errors
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer
from tests.models.gguf_file import write_gguf
from tests.runs.tiny import save_tiny

SOON = 20
"""Seconds, on a busy machine."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One folder per family, with a model."""
    made = {}
    for family in ("bert", "albert", "llama", "gpt2", "qwen3", "t5"):
        made[family] = tmp_path_factory.mktemp(family)
        build(family, {**SERVED, **ENCODER_DECODERS}[family]).save_pretrained(made[family])
        word_tokenizer().save_pretrained(made[family])
    return made


@pytest.fixture
def change(folders):
    """Replace settings in a model's configuration, and restore them afterwards."""
    kept = {}

    def replace(family, **settings):
        path = folders[family] / "config.json"
        kept.setdefault(path, path.read_text())
        path.write_text(json.dumps({**json.loads(kept[path]), **settings}))
        return folders[family]

    yield replace
    for path, text in kept.items():
        path.write_text(text)


def rejected(path):
    """The message with which a model is rejected, quickly and in little memory."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError) as caught:
        load(path)
    assert time.monotonic() - begin < SOON
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kilobytes
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600 + len(str(path))
    return message


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("bert", {"num_hidden_layers": 10**6}),
        ("bert", {"num_hidden_layers": 4_000}),
        ("albert", {"num_hidden_layers": 10**6}),
        ("qwen3", {"num_hidden_layers": 10**10}),
        ("gpt2", {"n_layer": 10**6}),
        ("t5", {"num_decoder_layers": 10**6}),
        ("bert", {"num_labels": 10**10}),
        ("bert", {"vocab_size": 10**12}),
        ("bert", {"hidden_size": 2**40}),
        ("bert", {"max_position_embeddings": 10**12}),
        ("llama", {"intermediate_size": 10**11}),
        ("bert", {"num_attention_heads": 0}),
        ("bert", {"num_attention_heads": 5}),
        ("llama", {"num_key_value_heads": 0}),
        ("bert", {"hidden_size": "32"}),
        ("bert", {"hidden_size": [32]}),
        ("bert", {"num_hidden_layers": None}),
        ("bert", {"num_hidden_layers": -1}),
        ("bert", {"hidden_act": "no such function"}),
        ("bert", {"model_type": 7}),
        ("bert", {"model_type": "no such family"}),
        ("bert", {"architectures": 7, "model_type": None}),
        ("bert", {"auto_map": [], "quantization_config": "x"}),
    ],
)
def test_an_impossible_configuration_is_one_sentence(change, family, settings):
    folder = change(family, **settings)
    assert str(folder) in rejected(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '"text"', "[" * 100_000, '{"n": ' + "9" * 5_000 + "}", "\x00\xff"])
def test_a_malformed_configuration_is_one_sentence(folders, change, text):
    change("bert")
    (folders["bert"] / "config.json").write_text(text)
    rejected(folders["bert"])


def header(text, size=None):
    return (len(text) if size is None else size).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        header(b"{}", 2**63),
        header(b"{}", 2**40),
        header(b"[]"),
        header(b"{" * 100_000),
        header(b'{"x": {"dtype": "F32", "shape": [99], "data_offsets": [0, 396]}}'),
        header(b'{"x": {"dtype": "F9", "shape": [1], "data_offsets": [0, 4]}}') + b"1234",
        header(b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}') + b"1234",
    ],
)
def test_a_malformed_safetensors_file_is_one_sentence(tmp_path, content):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    word_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    assert "model.safetensors" in rejected(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "model.safetensors" in rejected(tmp_path)


@pytest.mark.parametrize("index", ["{", "{}", "[]", '{"weight_map": {}}', '{"weight_map": {"x": 1}}', '{"weight_map": ["x"]}'])
def test_a_malformed_index_is_one_sentence(tmp_path, index):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "no model.safetensors" in rejected(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert "model.safetensors.index.json" in rejected(tmp_path)


def test_a_gguf_file_loads(tmp_path):
    assert load(write_gguf(tmp_path / "tiny.gguf")).trace("a b c").tokens == ("a", "▁b", "▁c")


def test_the_header_of_a_gguf_file_is_read_once(tmp_path, monkeypatch):
    reads = []
    reader = gguf.GGUFReader
    monkeypatch.setattr(gguf, "GGUFReader", lambda path: (reads.append(path), reader(path))[1])
    load(write_gguf(tmp_path / "tiny.gguf"))
    assert len(reads) == 1


@pytest.mark.parametrize("share", [0, 0.0001, 0.01, 0.05, 0.2, 0.5, 0.99])
def test_a_truncated_gguf_file_is_one_sentence(tmp_path, share):
    path = write_gguf(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    rejected(path)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"leave_out": ["blk.1.attn_q.weight"]}, "layers.1.self_attn.q_proj.weight"),
        ({"leave_out": ["token_embd.weight"]}, "embed_tokens.weight"),
        ({"reshape": ["blk.1.ffn_up.weight"]}, r"layers.1.mlp.up_proj.weight of shape (48, 32)"),
        ({"block_count": 3}, "layers.2."),
        ({"block_count": 10**6}, "block_count"),
        ({"block_count": 4_000}, "parameters"),
        ({"embedding_length": 2**31}, "weights"),
        ({"vocab_size": 2**31}, "weights"),
        ({"attention.head_count": 0}, "zero"),
    ],
)
def test_a_gguf_file_with_a_wrong_header_is_rejected_by_name(tmp_path, change, names):
    assert names in rejected(write_gguf(tmp_path / "tiny.gguf", **change))


@pytest.mark.parametrize("name", ["x" * 5_000, "~nobody-of-that-name/model", "a\0b", "", "a b", "a/b/c", "/dev/null"])
def test_an_impossible_name_is_one_sentence(name):
    rejected(name)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", torch.float8_e4m3fnuz, "complex64", "nn", ""])
def test_dtypes_that_torch_does_not_compute_in_are_rejected(folders, dtype):
    with pytest.raises(InputError, match="float32, float64, bfloat16, float16"):
        load(folders["bert"], dtype=dtype)


@pytest.mark.parametrize("device", ["meta", "cuda:99", "lazy", "privateuseone", "", "cpu:x"])
def test_devices_that_torch_cannot_use_are_rejected(folders, device):
    with pytest.raises(InputError, match="device that torch can use here"):
        load(folders["bert"], device=device)


def test_weights_in_float8_are_rejected():
    with pytest.raises(ModelError, match="float8_e5m2"):
        load(build("bert", SERVED["bert"]).to(torch.float8_e5m2), word_tokenizer())


class Panic(BaseException):
    """What Rust libraries raise: not an Exception."""


@pytest.mark.parametrize("error", [Panic("panic"), RecursionError("deep"), MemoryError(), KeyError("x"), AssertionError()])
def test_every_error_becomes_one_sentence(error):
    with pytest.raises(ModelError, match=r"^tiny cannot be loaded.*[.]$"), model_errors("tiny cannot be loaded"):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), InputError("as it is")])
def test_interrupts_and_our_own_errors_are_not_translated(error):
    with pytest.raises(type(error)) as caught, model_errors("tiny cannot be loaded"):
        raise error
    assert caught.value is error
    assert not isinstance(error, IdentiformerError) or str(error) == "as it is"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_a_huge_json_file_is_not_read(tmp_path, name):
    """Reading a sparse file of 6 GiB took longer than half a minute."""
    folder = save_tiny(tmp_path / "model")
    os.truncate(folder / name, 6 * 2**30)
    with pytest.raises(ModelError, match=rf"{name} in .* is larger; get an intact copy"):
        load(folder)


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "albert", "distilbert", "electra", "gpt2", "gpt_neox", "llama", "qwen3", "gemma2", "t5", "bart"]
)
def test_a_folder_without_tokenizer_files_is_rejected(family, tmp_path):
    build(family, {**SERVED, **ENCODER_DECODERS}[family]).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="tokenizer"):
        load(tmp_path)
    assert load(tmp_path, word_tokenizer()).trace("w1 w2").tokens[1] == "w1"


def test_an_empty_vocabulary_is_rejected(tmp_path):
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "tokenizer.json").read_text())
    stored["model"]["vocab"] = {word: number for word, number in stored["model"]["vocab"].items() if word.startswith("[")}
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    with pytest.raises(ModelError, match="without a vocabulary"):
        load(tmp_path)
