"""Tokenizers that multiply a text are rejected when they are read, before they see one."""

import base64
import json
import time

import pytest
from tokenizers import AddedToken, Regex, decoders, normalizers, processors

from identiformer.cli import run_command
from identiformer.errors import ModelError
from identiformer.models import load
from identiformer.models.loading.tokenizer_growth import check_growth
from tests.models.families import SERVED, build, word_tokenizer

CHARACTERS = base64.b64encode((0).to_bytes(4, "little") + b"a\0" + b"b" * 10**5)


def _folder(tmp_path, step, part, added=None):
    tokenizer = word_tokenizer()
    if added is not None:
        tokenizer.add_tokens([added])
    build("bert", SERVED["bert"]).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps({**stored, step: json.loads(part.__getstate__())}))
    return str(tmp_path)


@pytest.mark.parametrize(
    ("step", "part"),
    [
        ("normalizer", normalizers.Replace("w", "w" * 10**6)),
        ("normalizer", normalizers.Sequence([normalizers.Replace("w", "w" * 100), normalizers.Replace("w", "w" * 100)])),
        ("normalizer", normalizers.Replace(Regex("x*"), "w" * 10**4)),
        ("normalizer", normalizers.Prepend("w" * 10**6)),
        ("post_processor", processors.TemplateProcessing(single=["$A"] * 2000, pair="$A $B", special_tokens=[])),
        ("decoder", decoders.Sequence([decoders.Replace("w", "w" * 10**6)])),
    ],
    ids=["replaced", "twice", "expression", "prepended", "template", "decoded"],
)
def test_a_step_that_multiplies_is_named(tmp_path, capsys, step, part):
    folder = _folder(tmp_path, step, part)
    with pytest.raises(ModelError, match=rf"at most 1000 times as long, got .* times from the {step} of {folder}; use another"):
        load(folder)
    capsys.readouterr()
    assert run_command(["inspect", "w1 w2", "--model", folder, "--fast"]) == 2
    assert "expected a tokenizer that makes a text at most 1000 times as long" in capsys.readouterr().err


def test_an_added_token_does_not_set_it_off_earlier(tmp_path):
    folder = _folder(tmp_path, "normalizer", normalizers.Replace("w", "w" * 10**6), AddedToken("w" * 20, normalized=True))
    began = time.monotonic()
    with pytest.raises(ModelError, match="at most 1000 times"):
        load(folder)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("step", "part"),
    [
        (
            "normalizer",
            normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), "▁"), normalizers.Prepend("▁")]),
        ),
        ("normalizer", normalizers.BertNormalizer()),
        ("post_processor", processors.TemplateProcessing(single=["$A"] * 5, pair="$A $B", special_tokens=[])),
        ("decoder", decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])),
    ],
)
def test_steps_of_usual_tokenizers_are_accepted(tmp_path, step, part):
    assert load(_folder(tmp_path, step, part)).tokens("w1 w2").texts


def test_characters_of_sentencepiece_are_measured():
    step = {"type": "Precompiled", "precompiled_charsmap": CHARACTERS.decode()}
    with pytest.raises(ModelError, match=r"got 1e\+05 times from the normalizer of it"):
        check_growth({"normalizer": step}, "it")
