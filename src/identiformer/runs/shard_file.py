"""The states of one shard as bytes, with a checksum: what was cut off, altered or put elsewhere is not taken for sound."""

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass
from math import prod

import numpy as np

from identiformer.errors import RunError
from identiformer.measures.corpus import State
from identiformer.typed_json import parse_json, typed

FAMILY, TITLE = b"identiformer shard ", b"identiformer shard 2\n"
DIGITS = 64
"""Of a checksum."""
LARGEST = 2**30
"""Bytes of a shard, unpacked: more is not what a measure keeps."""
NUMBERS = np.dtype("<i8")


@dataclass(frozen=True)
class Failure:
    """An example on which something raised."""

    example: int
    """Its number in the corpus, from 0."""
    text: str
    what: str
    """The measure, or `reading` where the example could not even be run."""
    error: str


@dataclass(frozen=True)
class ShardResult:
    """What a worker gives back: a state for each measure, and what failed."""

    states: dict[str, State]
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class _Total:
    measure: str
    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Contents:
    """The first line of the packed bytes: which numbers follow, in which order."""

    measures: tuple[str, ...]
    totals: tuple[_Total, ...]
    failures: tuple[Failure, ...]


def to_bytes(result: ShardResult, name: str) -> bytes:
    """A title, the checksum of the shard's name and the rest, and the whole numbers of all states, packed.

    name: says which shard of which settings it is, so that no other can be put in its place.
    """
    totals = [
        (_Total(measure, key, total.shape), total)
        for measure, state in result.states.items()
        for key, total in state.totals.items()
    ]
    contents = _Contents(tuple(result.states), tuple(about for about, _ in totals), result.failures)
    numbers = b"".join(np.ascontiguousarray(total, NUMBERS).tobytes() for _, total in totals)
    packed = zlib.compress(json.dumps(asdict(contents)).encode() + b"\n" + numbers)
    return TITLE + _checksum(name, packed) + b"\n" + packed


def from_bytes(content: bytes, name: str) -> ShardResult | None:
    """The result, or None where the bytes are not what was written for the shard of this name."""
    if content.startswith(FAMILY) and not content.startswith(TITLE):
        raise RunError(
            "expected shards as this version of identiformer writes them, got those of another; run in another folder."
        )
    packed = content[len(TITLE) + DIGITS + 1 :]
    if content[: len(TITLE) + DIGITS + 1] != TITLE + _checksum(name, packed) + b"\n":
        return None
    try:
        return _unpack(packed)
    except (ValueError, zlib.error):
        return None


def _checksum(name: str, packed: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + packed).hexdigest().encode()


def _unpack(packed: bytes) -> ShardResult:
    reader = zlib.decompressobj()
    header, _, numbers = reader.decompress(packed, LARGEST).partition(b"\n")
    if not reader.eof:
        raise ValueError("expected a whole shard")
    contents = typed(parse_json(header), _Contents)
    totals: dict[str, dict[str, np.ndarray]] = {measure: {} for measure in contents.measures}
    for about in contents.totals:
        size = prod(about.shape) * NUMBERS.itemsize
        if about.measure not in totals or min(about.shape, default=0) < 0 or size > len(numbers):
            raise ValueError("expected the numbers that the first line announces")
        totals[about.measure][about.name] = np.frombuffer(numbers[:size], NUMBERS).astype(np.int64).reshape(about.shape)
        numbers = numbers[size:]
    if numbers:
        raise ValueError("expected no other numbers")
    return ShardResult({measure: State(own) for measure, own in totals.items()}, contents.failures)
