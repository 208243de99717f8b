"""All results of one `identify` are of the same texts."""

import io
import sys

import pytest

import identiformer as idf
from identiformer.errors import InputError
from identiformer.measures.identifiability import folder as identification
from tests.models.families import SERVED, build, word_tokenizer

TEXTS = [f"w{number} w{number + 1} w{number + 2}" for number in range(30)]
QUICK = {"methods": ["naive cosine"], "layers": [1], "resplits": 1}


@pytest.fixture(scope="module")
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


def test_corpus_is_read_once(model, tmp_path, monkeypatch):
    corpus = tmp_path / "texts.txt"
    corpus.write_text("\n".join(TEXTS))
    measure = identification.token_identifiability

    def then_changed(*arguments, **options):
        try:
            return measure(*arguments, **options)
        finally:
            corpus.write_text("\n".join(TEXTS[::-1]))

    monkeypatch.setattr(identification, "token_identifiability", then_changed)
    actual = idf.identify(model, corpus, tmp_path / "out", also=["neighbors"], **QUICK)
    assert len({result.attrs["corpus_hash"] for result in actual.values()}) == 1


def test_standard_input_serves_every_measure(model, tmp_path, monkeypatch):
    class Pipe:
        buffer = io.BytesIO("\n".join(TEXTS).encode())

    monkeypatch.setattr(sys, "stdin", Pipe)
    actual = idf.identify(model, "-", tmp_path / "out", also=["neighbors"], **QUICK)
    assert {result.attrs["examples"] for result in actual.values()} == {30}


@pytest.mark.parametrize("seed", [-1, 10**40])
def test_invalid_seed_is_rejected(model, tmp_path, seed):
    with pytest.raises(InputError, match=r"expected a seed from 0 to 4294967295, got .*; choose another"):
        idf.identify(model, TEXTS, tmp_path / "out", seed=seed, **QUICK)
    with pytest.raises(InputError, match="expected a seed from 0 to 18446744073709551615, got"):
        idf.token_attribution(model, "w1 w2", seed=seed)
    assert not (tmp_path / "out").exists()
