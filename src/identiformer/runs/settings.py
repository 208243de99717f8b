"""Everything that the results of a run depend on."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from identiformer.errors import InputError
from identiformer.models.generation.settings import Generation
from identiformer.options import check_max_length, check_seed
from identiformer.results.schema import CORPUS_MEASURES
from identiformer.texts import BLOCK

LARGEST = 2**53
"""Most examples of a corpus; larger integers are not exact in JSON."""
PARTS = re.compile(r"([0-9]{1,15})/([0-9]{1,15})")


@dataclass(frozen=True)
class Settings:
    """What two runs must share for the shards of one to be valid in the other."""

    revision: str
    architecture: str
    dtype: str
    device: str
    corpus_hash: str
    examples: int
    measures: tuple[str, ...]
    max_length: int | None
    directions: int
    """Random directions per token in Hidden Token Attribution."""
    seed: int
    maps: tuple[str, ...]
    """Maps that faithfulness judges; none means all cheap maps."""
    yardsticks: tuple[str, ...]
    """Yardsticks by which it judges them; none means the default."""
    shard_size: int
    part: str
    """K/N: the K-th of N parts of the shards; 1/1 is all of them."""
    versions: dict[str, str]
    generation: Generation | None = None
    """How the model answers each text before prompt and answer are measured; None if texts are read as they are."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not 1 <= self.examples <= LARGEST:
            raise InputError(f"expected from 1 to {LARGEST} examples, got {self.examples}.")
        unknown = [name for name in self.measures if name not in CORPUS_MEASURES]
        if unknown or "texts" not in self.measures:
            received = ", ".join(map(ascii, unknown))[:60] or "no texts"
            raise InputError(f"expected some of {', '.join(CORPUS_MEASURES)}, got {received}.")
        if not BLOCK <= self.shard_size <= LARGEST or self.shard_size % BLOCK:
            raise InputError(f"expected a shard size that is a multiple of {BLOCK} examples, got {self.shard_size}.")
        check_max_length(self.max_length)
        if self.directions < 2:
            raise InputError(f"expected at least 2 directions, from which their error is estimated, got {self.directions}.")
        numbers = PARTS.fullmatch(self.part)
        if numbers is None or not 1 <= int(numbers[1]) <= int(numbers[2]):
            raise InputError(f"expected a part such as 1/3, the first of three, got {ascii(self.part)[:60]}.")
        if not self.part_shards:
            raise InputError(
                f"expected at most as many parts as there are shards, {len(self.shards)} of {self.shard_size} examples, but part "
                f"{self.part} has none; use fewer parts or smaller shards."
            )

    @property
    def shards(self) -> range:
        """The numbers of all shards of the corpus."""
        return range(-(-self.examples // self.shard_size))

    @property
    def part_shards(self) -> range:
        """The shards of this part: every N-th, so that parts are alike even if the corpus is sorted."""
        part, parts = map(int, self.part.split("/"))
        return self.shards[part - 1 :: parts]

    def examples_in(self, shard: int) -> range:
        """The numbers of the examples of a shard."""
        first = shard * self.shard_size
        return range(first, min(first + self.shard_size, self.examples))

    def shard_name(self, shard: int) -> str:
        """The number of a shard and a hash of everything it depends on, which excludes the part it was computed in."""
        whole = {name: value for name, value in self.as_json().items() if name != "part"}
        return f"{shard:06d}-{hashlib.sha256(json.dumps([whole, shard], sort_keys=True).encode()).hexdigest()[:32]}"

    def as_json(self) -> dict[str, Any]:
        """The settings as settings.json holds them; without answers, as before runs had any, so that earlier runs stay valid."""
        settings = json.loads(json.dumps(asdict(self)))
        return {name: value for name, value in settings.items() if name != "generation" or value is not None}

    def source(self, provenance: Mapping[str, str]) -> dict[str, str]:
        """The attributes of every result that record its provenance."""
        return {
            **{name: provenance[name] for name in ("model", "weights") if name in provenance},
            "revision": self.revision,
            "architecture": self.architecture,
            "dtype": self.dtype,
            "corpus": provenance["corpus"],
            "corpus_hash": self.corpus_hash,
            **{f"{package}_version": number for package, number in self.versions.items()},
        }

    def of_results(self) -> dict[str, Any]:
        """The settings stored with each result; the shard size is not among them, because results do not depend on it."""
        names = ("examples", "max_length", "directions", "seed", "maps", "yardsticks", "part", "generation")
        settings = self.as_json()
        return {name: settings[name] for name in names if name in settings}
