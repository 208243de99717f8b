"""The states of one shard as bytes, with a checksum that detects truncated, altered and misplaced files."""

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass
from math import prod

import numpy as np

from identiformer.errors import RunError
from identiformer.measures.corpus import Failure, State
from identiformer.typed_json import parse_json, typed

FAMILY, TITLE = b"identiformer shard ", b"identiformer shard 3\n"
DIGITS = 64
"""Length of a checksum."""
LARGEST = 2**30
"""Bytes of an unpacked shard; no measure keeps more."""
NUMBERS = np.dtype("<i8")


@dataclass(frozen=True)
class ShardResult:
    """What a worker returns: the state of each measure, and the examples that failed."""

    states: dict[str, State]
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class _Contents:
    """The first line of the packed bytes: the shape of each array that follows, by measure and name, and the failures."""

    shapes: dict[str, dict[str, tuple[int, ...]]]
    failures: tuple[Failure, ...]


def to_bytes(result: ShardResult, name: str) -> bytes:
    """Return a title, a checksum, and the compressed integers of all states.

    The checksum includes the name, which identifies the shard and the settings, so that no other shard can take its place.
    """
    shapes = {measure: {key: total.shape for key, total in state.totals.items()} for measure, state in result.states.items()}
    totals = (total for state in result.states.values() for total in state.totals.values())
    numbers = b"".join(np.ascontiguousarray(total, NUMBERS).tobytes() for total in totals)
    packed = zlib.compress(json.dumps(asdict(_Contents(shapes, result.failures))).encode() + b"\n" + numbers)
    return TITLE + _checksum(name, packed) + b"\n" + packed


def from_bytes(content: bytes, name: str) -> ShardResult | None:
    """Return the result; None if the bytes were not written for the shard of this name."""
    if content.startswith(FAMILY) and not content.startswith(TITLE):
        raise RunError("expected shards of this version of identiformer, got those of another version; run in another folder.")
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
    first_line, _, numbers = reader.decompress(packed, LARGEST).partition(b"\n")
    if not reader.eof:
        raise ValueError("expected a complete shard")
    contents = typed(parse_json(first_line), _Contents)
    totals: dict[str, dict[str, np.ndarray]] = {measure: {} for measure in contents.shapes}
    for measure, shapes in contents.shapes.items():
        for name, shape in shapes.items():
            size = prod(shape) * NUMBERS.itemsize
            if min(shape, default=0) < 0 or size > len(numbers):
                raise ValueError("expected the arrays listed in the first line")
            totals[measure][name] = np.frombuffer(numbers[:size], NUMBERS).astype(np.int64).reshape(shape)
            numbers = numbers[size:]
    if numbers:
        raise ValueError("expected no bytes after the last array")
    return ShardResult({measure: State(arrays) for measure, arrays in totals.items()}, contents.failures)
