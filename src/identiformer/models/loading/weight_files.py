"""The files that hold a model's weights: found as transformers finds them, and checked before anything is read or built."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers.integrations.gguf.reader import read_gguf_metadata
from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
)
from transformers.utils.hub import cached_file

from identiformer.errors import ModelError, UnsupportedModelError

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
MAGIC_OF_PICKLES = (b"PK\x03\x04", b"\x80")
"""How files of torch.save begin: as a zip archive, or before version 1.6 as a bare pickle."""
DISTRIBUTED = re.compile(r"shard-\d+-model-\d+-of-\d+\.safetensors")

LAYERS = re.compile(r".*(layers?|depths?|block_count)")
COUNTS = re.compile(r".*(blocks?|heads?|head_count(_kv)?|experts?|expert_count|labels?|groups?|stages?)")
MOST_LAYERS, MOST_COUNTED = 5_000, 1_000_000
"""Beyond what any model has; a configuration lists its layers and labels one by one before a model is built from it."""

MOST_BYTES_OF_JSON = 2**28
"""Vocabularies of a quarter of a million tokens take about 2**25."""


@dataclass(frozen=True)
class WeightFiles:
    """What the files of a model hold, by their headers."""

    size: int
    """In bytes."""
    tensors: int | None
    """Unknown for a pickle."""
    safetensors: bool


def find_weights(source: str, name: str, config: Mapping[str, Any], *, local_files_only: bool, allow_pickle: bool) -> WeightFiles:
    """The weights in a folder or on the hub, in safetensors, or in a pickle where that is allowed."""

    def find(filename: str) -> Path | None:
        path = cached_file(source, filename, local_files_only=local_files_only, _raise_exceptions_for_missing_entries=False)
        return None if path is None else Path(path)

    folder = Path(source)
    if folder.is_dir() and any(DISTRIBUTED.fullmatch(path.name) for path in folder.iterdir()):
        raise UnsupportedModelError(f"{name} holds a distributed checkpoint; save the model as one with save_pretrained.")
    named = config.get("transformers_weights")  # a configuration can name the file
    candidates = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME) if named is None else (_inside(named, name),)
    for filename in candidates:
        if filename.endswith((".safetensors", ".safetensors.index.json")) and (path := find(filename)) is not None:
            paths = _shards(path, name, find) if filename.endswith(".json") else [path]
            return WeightFiles(_size(paths), sum(_tensors_in(path, name) for path in paths), True)
    if not allow_pickle:
        pickled = folder.is_dir() and any(any(folder.glob(pattern)) for pattern in PICKLES)
        if pickled or not folder.is_dir():
            are = "are a Python pickle" if pickled else "are not stored as safetensors but perhaps as a Python pickle"
            raise ModelError(
                f"the weights in {name} {are}, which can run any code; convert them to safetensors, or accept the risk with "
                "allow_pickle=True (--allow-pickle)."
            )
        raise ModelError(f"expected weights in {name}, got no {SAFE_WEIGHTS_NAME}; get a complete copy of the model.")
    for filename in (WEIGHTS_NAME, WEIGHTS_INDEX_NAME) if named is None else candidates:
        if (path := find(filename)) is not None:
            return WeightFiles(_size(_shards(path, name, find) if filename.endswith(".json") else [path]), None, False)
    raise ModelError(
        f"expected weights in {name}, got neither {SAFE_WEIGHTS_NAME} nor {WEIGHTS_NAME}; get a complete copy of the model."
    )


def find_gguf(path: Path, name: str) -> WeightFiles:
    """A GGUF file as weights, once its header is found to be whole and its sizes sane."""
    metadata, tensors = read_gguf_metadata(str(path))
    check_counts({key.rpartition(".")[2]: value for key, value in metadata.items()}, name)
    return WeightFiles(path.stat().st_size, len(tensors), False)


def check_texts(source: str, name: str) -> None:
    """Reject a folder with a configuration, index or vocabulary that is larger than any: all of it would be read at once."""
    folder = Path(source)
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        if path.is_file() and path.stat().st_size > MOST_BYTES_OF_JSON:
            raise ModelError(
                f"expected files of settings of at most {MOST_BYTES_OF_JSON:,} bytes, but {path.name} in {name} is larger; "
                "get a sound copy of the model."
            )


def check_counts(config: Any, name: str) -> None:
    """Reject a configuration that is not one, or that counts more layers, heads or labels than any model has."""
    if not isinstance(config, Mapping):
        raise ModelError(f"expected settings by name in the config.json of {name}, got a {type(config).__name__}.")
    for key, value in _settings(config):
        most = MOST_LAYERS if LAYERS.fullmatch(key) else MOST_COUNTED if COUNTS.fullmatch(key) else math.inf
        if abs(value) > most:
            raise ModelError(
                f"expected at most {most:,} for {key} in the configuration of {name}, more than any model has, got a number of "
                f"{len(str(value))} digits; get a sound copy of the model."
            )


def _settings(config: Mapping[Any, Any]) -> Iterator[tuple[str, int]]:
    """Every integer of a configuration under its name, those of lists and parts too."""
    waiting = [(str(key), value) for key, value in config.items()]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend((str(name), part) for name, part in value.items())
        elif isinstance(value, list):
            waiting.extend((key, part) for part in value)
        elif isinstance(value, int):
            yield key, value


def _shards(index: Path, name: str, find: Any) -> list[Path]:
    """The files that an index names, each of the kind that the index is of, and in the same folder."""
    try:
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"expected a weight_map of file names in {index.name} of {name}; get a sound copy of it.") from None
    kind = ".safetensors" if index.name.endswith(".safetensors.index.json") else ".bin"
    for shard in shards:
        if not isinstance(shard, str) or not shard.endswith(kind):
            raise ModelError(
                f"expected {index.name} of {name} to name {kind} files, got {shard!r}, which may be a Python pickle that can run "
                "any code; get a sound copy of the model."
            )
    found = {shard: find(_inside(shard, name)) for shard in shards}
    lacking = [shard for shard, path in found.items() if path is None]
    if lacking or not shards:
        raise ModelError(f"expected the files that {index.name} of {name} names, got no {', '.join(lacking[:3]) or 'names'}.")
    return [path for path in found.values() if path is not None]


def _inside(filename: Any, name: str) -> str:
    """A file name that does not lead out of the model's folder."""
    if not isinstance(filename, str) or Path(filename).is_absolute() or ".." in Path(filename).parts:
        raise ModelError(f"expected the weights of {name} in its own folder, got {filename!r}; get a sound copy of the model.")
    return filename


def _tensors_in(path: Path, name: str) -> int:
    """How many tensors a safetensors file holds; reading its header shows that it is one."""
    try:
        with safe_open(path, "pt") as file:
            return len(file.keys())
    except (SafetensorError, OSError) as error:
        with path.open("rb") as file:
            begin = file.read(4)
        if begin.startswith(MAGIC_OF_PICKLES):
            reason = "it is a Python pickle, which can run any code, under another name"
        else:
            reason = " ".join(str(error).split())
        raise ModelError(
            f"expected a safetensors file, but {path.name} of {name} cannot be read as one ({reason}); get a sound copy."
        ) from None


def _size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
