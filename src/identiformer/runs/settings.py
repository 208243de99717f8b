"""Everything that the states of a run depend on, and where it came from."""

import hashlib
import json
import platform
import re
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from identiformer.errors import InputError
from identiformer.measures.corpus import MEASURES
from identiformer.models import Model
from identiformer.options import check_seed
from identiformer.texts import BLOCK, Survey

LARGEST = 2**53
"""Examples of a corpus, tokens of a text: more are a mistake."""
PACKAGES = ("identiformer", "torch", "transformers", "numpy")
PARTS = re.compile(r"([0-9]{1,15})/([0-9]{1,15})")


@dataclass(frozen=True)
class Settings:
    """What two runs must agree on for the shards of one to serve the other."""

    revision: str
    architecture: str
    dtype: str
    device: str
    corpus_hash: str
    examples: int
    measures: tuple[str, ...]
    max_length: int | None
    directions: int
    """Random directions a token, where hidden vectors are attributed."""
    seed: int
    shard_size: int
    part: str
    """K/N: the K-th of N parts of the shards; 1/1 is all of them."""
    versions: dict[str, str]

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not 1 <= self.examples <= LARGEST:
            raise InputError(f"expected from 1 to {LARGEST} examples, got {self.examples}.")
        unknown = [name for name in self.measures if name not in MEASURES]
        if unknown or "texts" not in self.measures:
            raise InputError(
                f"expected measures of {', '.join(MEASURES)}, got {', '.join(map(ascii, unknown))[:60] or 'none of texts'}."
            )
        if not BLOCK <= self.shard_size <= LARGEST or self.shard_size % BLOCK:
            raise InputError(
                f"expected shards of a multiple of {BLOCK} examples, which are computed together, got {self.shard_size}."
            )
        if self.max_length is not None and not 1 <= self.max_length < 2**31:
            raise InputError(f"expected a largest length of at least 1 token, and at most {2**31 - 1}, got {self.max_length}.")
        if self.directions < 2:
            raise InputError(f"expected at least 2 directions, which tell their own error, got {self.directions}.")
        found = PARTS.fullmatch(self.part)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(f"expected a part such as 1/3, the first of three, got {ascii(self.part)[:60]}.")
        if not self.own_shards:
            raise InputError(
                f"expected at most as many parts as there are shards, {len(self.shards)} of {self.shard_size} examples, but part "
                f"{self.part} has none; use fewer parts or smaller shards."
            )

    @property
    def shards(self) -> range:
        """The numbers of all shards of the corpus."""
        return range(-(-self.examples // self.shard_size))

    @property
    def own_shards(self) -> range:
        """Those of this part: every N-th, so that parts are alike even where a corpus is sorted."""
        part, parts = map(int, self.part.split("/"))
        return self.shards[part - 1 :: parts]

    def examples_in(self, shard: int) -> int:
        """How many examples a shard has."""
        return min(self.shard_size, self.examples - shard * self.shard_size)

    def shard_name(self, shard: int) -> str:
        """Its number, and a hash of everything that it depends on; what part it was run in is not among it."""
        whole = {name: value for name, value in self.as_json().items() if name != "part"}
        return f"{shard:06d}-{hashlib.sha256(json.dumps([whole, shard], sort_keys=True).encode()).hexdigest()[:32]}"

    def as_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))


def settings_of(
    model: Model,
    survey: Survey,
    *,
    measures: tuple[str, ...],
    max_length: int | None,
    directions: int,
    seed: int,
    shard_size: int,
    part: str,
    packages: tuple[str, ...],
) -> Settings:
    """The settings of a run that is about to begin; packages: those beyond the core that its measures depend on."""
    return Settings(
        revision=model.revision,
        architecture=type(model.network).__name__,
        dtype=str(model.network.dtype).removeprefix("torch."),
        device=model.network.device.type,
        corpus_hash=survey.hash,
        examples=survey.examples,
        measures=measures,
        max_length=max_length,
        directions=directions,
        seed=seed,
        shard_size=shard_size,
        part=part,
        versions={package: version(package) for package in (*PACKAGES, *packages)},
    )


def provenance_of(model: Model, survey: Survey) -> dict[str, str]:
    """What does not change a result, and is good to know."""
    return {
        "model": model.name,
        "corpus": survey.source.name,
        "python": platform.python_version(),
        "machine": platform.platform(),
    }
