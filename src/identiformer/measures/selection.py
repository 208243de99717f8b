"""Which heads, queries or keys a user means."""

import operator
from collections.abc import Iterable
from typing import Any

from identiformer.errors import InputError


def chosen(indices: Iterable[Any] | None, limit: int, name: str) -> list[int]:
    """The numbers asked for, all of them without a wish; what does not exist is refused."""
    try:
        numbers = list(range(limit)) if indices is None else [operator.index(index) for index in indices]
    except TypeError:
        raise InputError(f"expected whole {name} numbers, got {indices!r}.") from None
    wrong = [number for number in numbers if not 0 <= number < limit]
    if wrong or not numbers:
        raise InputError(f"expected {name} numbers from 0 to {limit - 1}, got {wrong[0] if wrong else 'none'}.")
    return numbers
