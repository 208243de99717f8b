"""The built-in passage, and files with one text per line."""

import pytest

from identiformer.errors import InputError
from identiformer.texts.passage import read_texts


def test_texts_are_read_one_per_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("First text.\n\n  Second text. \n", encoding="utf-8")
    assert read_texts(path, 1, 3) == ("First text.", "Second text.")
    with pytest.raises(InputError, match=r"expected 1 texts in .*, one per line, got 2"):
        read_texts(path, 1, 1)
    path.write_bytes(b"\xff")
    for unreadable in (path, tmp_path / "missing.txt", tmp_path):
        with pytest.raises(InputError, match="expected a text file"):
            read_texts(unreadable, 1, 3)
