"""Views that a page saved: the text, the model and everything that was selected, in a small file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short  # of a value that may be large or deep

from identiformer.errors import InputError
from identiformer.files import read_file
from identiformer.typed_json import parse_json

VERSION = 1
MOST_BYTES = 2**20
EXPECTED = "expected a view that the explorer saved (Export, Save view)"


@dataclass(frozen=True)
class SavedView:
    """What a page showed.

    Parameters
    ----------
    model : str
        The name of its model.
    text, pair : str, optional
        Its text or pair of texts; no text if it was an image.
    generated : bool
        Whether the model wrote an answer to the text.
    view : mapping
        What was selected and how it was drawn; the page ignores what it does not know.
    """

    model: str
    text: str | None
    pair: str | None
    generated: bool
    view: Mapping[str, str | int | float | bool | None]


def open_view(path: str | os.PathLike[str]) -> SavedView:
    """Read a saved view; raise InputError for anything else."""
    try:
        content = parse_json(read_file(Path(path), MOST_BYTES))
    except OSError as error:
        raise InputError(f"{EXPECTED}, but {path} cannot be read ({error.strerror}); check the path.") from None
    except ValueError:
        raise InputError(f"{EXPECTED}, but {path} is not JSON; save the view again.") from None
    if not isinstance(content, dict) or content.get("identiformer_view") != VERSION:
        raise InputError(f"{EXPECTED}, got another JSON file, {path}; save the view again.")
    model, view = content.get("model"), content.get("view")
    text, pair = content.get("text"), content.get("pair")
    if not isinstance(model, str) or not isinstance(text, str | None) or not isinstance(pair, str | None):
        raise InputError(
            f"{EXPECTED}, but the model or text in {path} is {short(model if not isinstance(model, str) else text)}."
        )
    if not isinstance(view, dict) or not all(isinstance(value, str | int | float | bool | None) for value in view.values()):
        raise InputError(f"{EXPECTED}, but the selection in {path} is {short(view)}; save the view again.")
    return SavedView(model, text, pair, content.get("generated") is True, view)
