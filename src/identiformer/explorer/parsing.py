"""What a page asks for, checked before anything runs."""

import json
import re
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from identiformer.errors import InputError

MOST_DIGITS = 9
"""Of a whole number; no text has more layers, heads or tokens."""


def read_object(body: bytes) -> dict[str, Any]:
    """The object that a request holds: in JSON, of finite numbers and of text that can be written as UTF-8."""
    try:
        value = json.loads(body)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InputError("expected text in valid Unicode, got half of a surrogate pair; remove the broken character.") from None
    except (ValueError, RecursionError):
        raise InputError("expected an object in JSON with finite numbers, got something else; reload the page.") from None
    if not isinstance(value, dict):
        raise InputError(f"expected an object in JSON, got {shown(value)}; reload the page.")
    return value


def whole(value: Any, name: str) -> int:
    """A number of a layer, a head or a token."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 10**MOST_DIGITS:
        raise InputError(f"expected {name} to be a whole number of at most {MOST_DIGITS} digits, got {shown(value)}.")
    return value


def whole_in_address(written: str, name: str) -> int:
    """The same, as part of an address."""
    if not re.fullmatch(f"[0-9]{{1,{MOST_DIGITS}}}", written):
        raise InputError(f"expected {name} to be a whole number of at most {MOST_DIGITS} digits, got {shown(written)}.")
    return int(written)


def row_of(asked: Mapping[str, Any]) -> np.ndarray:
    """A row of attention weights."""
    row = asked.get("row")
    if not isinstance(row, list) or not all(type(weight) in (int, float) and 0 <= weight <= 1 for weight in row):
        raise InputError(f"expected a row of weights from 0 to 1, got {shown(row)}; reload the page.")
    return np.array(row, dtype=np.float64)


def shown(value: Any) -> str:
    """A value as part of a sentence: short, however large or deep it is."""
    return reprlib.repr(value)
