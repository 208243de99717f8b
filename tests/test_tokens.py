"""Tokens, and the words that they are pieces of."""

import subprocess
import sys

import pytest

from identiformer.errors import InputError
from identiformer.tokens import Tokens, Word

PAIR = Tokens(
    texts=("[CLS]", "un", "##able", "to", "[SEP]", "un", "[SEP]"),
    ids=tuple(range(7)),
    special=(True, False, False, False, True, False, True),
    segments=(0, 0, 0, 0, 0, 1, 1),
    word_ids=(None, 0, 0, 1, None, 0, None),
    spans=((0, 0), (0, 2), (2, 6), (7, 9), (0, 0), (0, 2), (0, 0)),
)


def test_words_of_both_texts_in_order_without_special_tokens():
    assert PAIR.words() == [Word(0, (1, 2), "unable", (0, 6)), Word(0, (3,), "to", (7, 9)), Word(1, (5,), "un", (0, 2))]


def test_labels_distinguish_equal_words_by_their_position():
    assert PAIR.word_labels() == ["[CLS] 0", "unable 1", "unable 1", "to 3", "[SEP] 4", "un 5", "[SEP] 6"]


def test_a_tokenizer_without_words_is_rejected():
    with pytest.raises(InputError, match="use a fast one"):
        Tokens(("a",), (1,), (False,), (0,)).words()


def test_tokens_need_neither_torch_nor_a_solver():
    check = "import sys, identiformer.tokens; sys.exit(bool({'torch', 'highspy', 'transformers'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
