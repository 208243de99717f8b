"""Which heads, queries or keys a user means."""

from collections.abc import Sequence

from identiformer.errors import InputError


def chosen(indices: Sequence[int] | None, limit: int, name: str) -> list[int]:
    """The numbers asked for, all of them without a wish; what does not exist is refused."""
    numbers = list(range(limit)) if indices is None else [int(index) for index in indices]
    wrong = [number for number in numbers if not 0 <= number < limit]
    if wrong or not numbers:
        raise InputError(f"expected {name} numbers from 0 to {limit - 1}, got {wrong[0] if wrong else 'none'}.")
    return numbers
