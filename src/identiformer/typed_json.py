"""JSON: numbers that it cannot hold, and stored files read as annotated types, rejecting anything that does not match."""

import dataclasses
import json
import math
import types
import typing
from pathlib import Path
from typing import Any

from identiformer.errors import ResultError
from identiformer.files import read_file

LARGEST_FILE = 2**26
LARGEST_NUMBER = 2**63
NAMES = {str: "text", int: "an integer", float: "a number", bool: "true or false", type(None): "null"}


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; every defect raises ValueError, even numbers of thousands of digits and unlimited nesting."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it has a number of too many digits") from None


def finite_or_null(value: Any, digits: int | None = None) -> Any:
    """Convert arrays and nested containers to JSON data, with None for NaN and infinity, because JSON has neither.

    >>> finite_or_null({"rates": (0.12345, float("nan"))}, digits=3)
    {'rates': [0.123, None]}
    """
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        value = value.tolist()
    if isinstance(value, dict):
        return {key: finite_or_null(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item, digits) for item in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if digits is None else round(value, digits)


def read_json(path: Path, annotation: Any, remedy: str) -> Any:
    """Read a JSON file as a dataclass or another annotated type; errors end with the remedy."""
    try:
        return typed(parse_json(read_file(path, LARGEST_FILE)), annotation)
    except OSError as error:
        raise ResultError(f"expected to read {path}, but {error.strerror}; {remedy}.") from None
    except ValueError as error:
        raise ResultError(f"{path} is damaged: {str(error).rstrip('.')}; {remedy}.") from None


def typed(value: Any, annotation: Any, where: str = "") -> Any:
    """Convert a parsed value to an annotated type, such as a list to a tuple or an object to a dataclass, or raise ValueError.

    >>> typed([1, 2], tuple[int, ...])
    (1, 2)
    >>> typed({"a": [1, "2"]}, dict[str, list[int]])
    Traceback (most recent call last):
    ValueError: expected an integer at a.1, got '2'
    """
    if annotation is Any:
        return value
    if dataclasses.is_dataclass(annotation):
        return _record(value, annotation, where)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return typed(value, next((option for option in inner if _fits(value, option)), inner[0]), where)
    if not _fits(value, annotation):
        name = NAMES.get(origin or annotation, "a list" if (origin or annotation) in (list, tuple) else "an object")
        raise ValueError(f"expected {name}{_at(where)}, got {_short(value)}")
    if origin is dict:
        return {typed(key, str, where): typed(item, inner[1], _under(where, key)) for key, item in value.items()}
    if origin in (list, tuple):
        return origin(typed(item, inner[0], _under(where, index)) for index, item in enumerate(value))
    if isinstance(value, int) and abs(value) >= LARGEST_NUMBER:
        raise ValueError(f"expected a number of 64 bits{_at(where)}, got one of {len(str(abs(value)))} digits")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"expected text{_at(where)}, got half a surrogate pair, {value[error.start]!a}") from None
    return value


def _record(value: Any, dataclass: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object{_at(where)}, got {_short(value)}")
    hints = typing.get_type_hints(dataclass)
    optional = {field.name for field in dataclasses.fields(dataclass) if field.default is not dataclasses.MISSING}
    for problem, names in (("missing", hints.keys() - optional - value.keys()), ("unknown", value.keys() - hints.keys())):
        if names:
            raise ValueError(f"expected {', '.join(hints)}{_at(where)}, but {_short(min(names))} is {problem}")
    return dataclass(**{name: typed(value[name], hint, _under(where, name)) for name, hint in hints.items() if name in value})


def _fits(value: Any, annotation: Any) -> bool:
    if dataclasses.is_dataclass(annotation):
        return isinstance(value, dict)
    plain = typing.get_origin(annotation) or annotation
    if plain in (list, tuple):
        return isinstance(value, list)
    if plain in (int, float):
        return isinstance(value, (int, float) if plain is float else int) and not isinstance(value, bool)
    return isinstance(value, plain)


def _under(where: str, name: Any) -> str:
    return f"{where}.{name}"[-200:].removeprefix(".")


def _at(where: str) -> str:
    return f" at {where.encode(errors='backslashreplace').decode()}" if where else ""


def _short(value: Any) -> str:
    return ascii(value) if len(shown := ascii(value)) <= 60 else f"{shown[:57]}..."
