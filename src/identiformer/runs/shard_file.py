"""The states of one shard as bytes, with a checksum: what was cut off or altered is told from what is sound."""

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from identiformer.measures.corpus import State

TITLE = b"identiformer shard 1\n"
FAILURES = "failures"


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


def to_bytes(result: ShardResult) -> bytes:
    """A title, the checksum of the rest, and the arrays as a compressed archive of NumPy."""
    arrays: dict[str, Any] = {
        f"{measure}/{name}": total for measure, state in result.states.items() for name, total in state.totals.items()
    }
    told = json.dumps([asdict(failure) for failure in result.failures]).encode()
    packed = io.BytesIO()
    arrays[FAILURES] = np.frombuffer(told, dtype=np.uint8)
    np.savez_compressed(packed, **arrays)
    content = packed.getvalue()
    return TITLE + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def from_bytes(content: bytes) -> ShardResult | None:
    """The result, or None where the bytes are not what was written."""
    title, checksum, rest = content[: len(TITLE)], content[len(TITLE) : len(TITLE) + 64], content[len(TITLE) + 65 :]
    if title != TITLE or hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    states: dict[str, dict[str, np.ndarray]] = {}
    with np.load(io.BytesIO(rest), allow_pickle=False) as arrays:
        failures = json.loads(arrays[FAILURES].tobytes())
        for key in arrays.files:
            if key != FAILURES:
                measure, name = key.split("/")
                states.setdefault(measure, {})[name] = arrays[key]
    return ShardResult(
        {measure: State(totals) for measure, totals in states.items()}, tuple(Failure(**each) for each in failures)
    )
