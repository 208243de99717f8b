"""JSON that was stored, read back against the types it was written from: what does not fit is damage, never a guess."""

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any

from identiformer.errors import ResultError
from identiformer.files import read_file

LARGEST_FILE = 2**26
LARGEST_NUMBER = 2**63
NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; whatever is wrong with it, numbers of thousands of digits and bottomless nesting included, is a ValueError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it holds a number of too many digits") from None


def read_json(path: Path, kind: Any, remedy: str) -> Any:
    """Read a file of JSON as a dataclass or another annotated type, or raise a sentence that ends with the remedy."""
    try:
        return typed(parse_json(read_file(path, LARGEST_FILE)), kind)
    except OSError as error:
        raise ResultError(f"expected to read {path}, but {error.strerror}; {remedy}.") from None
    except ValueError as error:
        raise ResultError(f"{path} is damaged: {str(error).rstrip('.')}; {remedy}.") from None


def typed(value: Any, kind: Any, where: str = "") -> Any:
    """Return a parsed value as the type asked for: lists become tuples and objects dataclasses; anything else is a ValueError.

    >>> typed([1, 2], tuple[int, ...])
    (1, 2)
    >>> typed({"a": [1, "2"]}, dict[str, list[int]])
    Traceback (most recent call last):
    ValueError: expected a whole number at a.1, got '2'
    """
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _record(value, kind, where)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return typed(value, next((one for one in inner if _fits(value, one)), inner[0]), where)
    if not _fits(value, kind):
        raise ValueError(f"expected {_name(kind)}{_at(where)}, got {_short(value)}")
    if origin is dict:
        return {typed(key, str, where): typed(one, inner[1], _under(where, key)) for key, one in value.items()}
    if origin in (list, tuple):
        return origin(typed(one, inner[0], _under(where, place)) for place, one in enumerate(value))
    if isinstance(value, int) and abs(value) >= LARGEST_NUMBER:
        raise ValueError(f"expected a number of 64 bits{_at(where)}, got one of {len(str(abs(value)))} digits")
    if isinstance(value, str) and not value.isascii():
        _require_unicode(value, where)
    return value


def _record(value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object{_at(where)}, got {_short(value)}")
    hints = typing.get_type_hints(kind)
    for problem, names in (("missing", hints.keys() - value.keys()), ("unknown", value.keys() - hints.keys())):
        if names:
            raise ValueError(f"expected {', '.join(hints)}{_at(where)}, but {_short(min(names))} is {problem}")
    return kind(**{name: typed(value[name], hint, _under(where, name)) for name, hint in hints.items()})


def _fits(value: Any, kind: Any) -> bool:
    if dataclasses.is_dataclass(kind):
        return isinstance(value, dict)
    plain = typing.get_origin(kind) or kind
    if plain in (list, tuple):
        return isinstance(value, list)
    if plain in (int, float):
        return isinstance(value, (int, float) if plain is float else int) and not isinstance(value, bool)
    return isinstance(value, plain)


def _require_unicode(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"expected text{_at(where)}, got half a surrogate pair, {text[error.start]!a}") from None


def _name(kind: Any) -> str:
    plain = typing.get_origin(kind) or kind
    return NAMES.get(plain, "a list" if plain in (list, tuple) else "an object")


def _under(where: str, name: Any) -> str:
    return f"{where}.{name}"[-200:].removeprefix(".")


def _at(where: str) -> str:
    return f" at {where.encode(errors='backslashreplace').decode()}" if where else ""


def _short(value: Any) -> str:
    return ascii(value) if len(shown := ascii(value)) <= 60 else f"{shown[:57]}..."
