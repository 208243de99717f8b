"""The reading over a corpus: that of each text, in the memory of one layer."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import MemoryBudgetError
from identiformer.measures.corpus.reading import SHARES
from tests.models.families import SERVED, build, word_tokenizer, words


def test_a_text_whose_layers_fit_one_at_a_time(tmp_path):
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    whole = idf.run([words(30)], model, ["reading"], out=tmp_path / "whole")["reading"]
    model.memory = 75 * 4 * 32**2
    with pytest.raises(MemoryBudgetError):
        idf.attention_reading(model.trace(words(30)))
    parts = idf.run([words(30)], model, ["reading"], out=tmp_path / "parts")["reading"]
    for name in SHARES:
        np.testing.assert_array_equal(parts[name], whole[name], err_msg=name)
