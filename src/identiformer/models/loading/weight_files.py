"""Find the files with a model's weights as transformers would, and check them before a model is built."""

import json
import math
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, WEIGHTS_INDEX_NAME, WEIGHTS_NAME
from transformers.utils.hub import cached_file

from identiformer.errors import ModelError, UnsupportedModelError
from identiformer.models.loading.gguf_files import read_header

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
MAGIC_OF_PICKLES = (b"PK\x03\x04", b"\x80")
"""First bytes of a file by torch.save: a zip archive, or before version 1.6 a bare pickle."""
DISTRIBUTED = re.compile(r"shard-\d+-model-\d+-of-\d+\.safetensors")

LAYERS = re.compile(r".*(layers?|depths?|block_count)")
COUNTS = re.compile(r".*(blocks?|heads?|head_count(_kv)?|experts?|expert_count|labels?|groups?|stages?)")
MOST_LAYERS, MOST_COUNTED = 5_000, 1_000_000
"""More than any model has. transformers lists layers and labels one by one when it reads a configuration, so more would hang."""

MOST_BYTES_OF_JSON = 2**28
"""A vocabulary of a quarter of a million tokens takes about 2**25 bytes."""


@dataclass(frozen=True)
class WeightFiles:
    """The size in bytes and, except for a pickle, the number of tensors in a model's files."""

    size: int
    tensors: int | None
    safetensors: bool
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """The type of each tensor by name; GGUF files have types of their own."""


def optional_file(source: str, filename: str, **where: Any) -> Path | None:
    """The path of a file in a folder or on the hub; None if there is none, or if it cannot be fetched."""
    kinds = ("missing_entries", "connection_errors", "gated_repo")
    path = cached_file(source, filename, **where, **{f"_raise_exceptions_for_{kind}": False for kind in kinds})
    return None if path is None else Path(path)


def find_weights(source: str, name: str, config: Mapping[str, Any], *, allow_pickle: bool, **where: Any) -> WeightFiles:
    """Find the weights in a folder or on the hub: safetensors, or a pickle where that is allowed."""

    def find(filename: str) -> Path | None:
        path = cached_file(source, filename, _raise_exceptions_for_missing_entries=False, **where)
        return None if path is None else Path(path)

    folder = Path(source)
    if folder.is_dir() and any(DISTRIBUTED.fullmatch(path.name) for path in folder.iterdir()):
        raise UnsupportedModelError(f"{name} holds a distributed checkpoint; save the model as one with save_pretrained.")
    named = config.get("transformers_weights")  # a configuration can name the file
    candidates = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME) if named is None else (_inside(named, name),)
    for filename in candidates:
        if filename.endswith((".safetensors", ".safetensors.index.json")) and (path := find(filename)) is not None:
            paths = _shards(path, name, find)
            dtypes = dict(ChainMap(*(_dtypes_in(path, name) for path in paths)))
            return WeightFiles(_size(paths), len(dtypes), True, dtypes)
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
            paths = _shards(path, name, find)
            return WeightFiles(_size(paths), None, False, dict(ChainMap(*map(_dtypes_pickled, paths))))
    raise ModelError(f"expected weights in {name}, got neither {SAFE_WEIGHTS_NAME} nor {WEIGHTS_NAME}; get a complete copy.")


def find_gguf(path: Path, name: str) -> WeightFiles:
    """Check the header of a GGUF file, and the counts in it."""
    metadata, tensors = read_header(path)
    check_counts({key.rpartition(".")[2]: value for key, value in metadata.items()}, name)
    return WeightFiles(path.stat().st_size, tensors, False)


def check_json_sizes(source: str, name: str) -> None:
    """Reject a folder with an implausibly large configuration, index or vocabulary, which would be read into memory."""
    folder = Path(source)
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        if path.is_file() and path.stat().st_size > MOST_BYTES_OF_JSON:
            raise ModelError(
                f"expected JSON files of at most {MOST_BYTES_OF_JSON:,} bytes, but {path.name} in {name} is larger; "
                "get an intact copy of the model."
            )


def check_counts(config: Any, name: str) -> None:
    """Reject a configuration that is not a mapping, or that has more layers, heads or labels than any model."""
    if not isinstance(config, Mapping):
        raise ModelError(f"expected a JSON object in the config.json of {name}, got a {type(config).__name__}.")
    for key, value in _settings(config):
        most = MOST_LAYERS if LAYERS.fullmatch(key) else MOST_COUNTED if COUNTS.fullmatch(key) else math.inf
        if value < 0 and key in ("num_hidden_layers", "n_layer", "num_layers"):
            raise ModelError(f"expected {key} of at least 0 in the configuration of {name}, got {value}; get an intact copy.")
        if abs(value) > most:
            raise ModelError(
                f"expected at most {most:,} for {key} in the configuration of {name}, more than any model has, got a number of "
                f"{len(str(value))} digits; get an intact copy of the model."
            )


def _settings(config: Mapping[Any, Any]) -> Iterator[tuple[str, int]]:
    """All integers of a configuration by name, including those in lists and nested configurations."""
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
    """The files that an index lists, which must have its format and be in its folder; or the one file that is not an index."""
    if index.suffix != ".json":
        return [index]
    try:
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"expected a weight_map of file names in {index.name} of {name}; get an intact copy of it.") from None
    kind = ".safetensors" if index.name.endswith(".safetensors.index.json") else ".bin"
    for shard in shards:
        if not isinstance(shard, str) or not shard.endswith(kind):
            raise ModelError(
                f"expected {index.name} of {name} to name {kind} files, got {shard!r}, which may be a Python pickle that can run "
                "any code; get an intact copy of the model."
            )
    paths = {shard: find(_inside(shard, name)) for shard in shards}
    missing = [shard for shard, path in paths.items() if path is None]
    if missing or not shards:
        raise ModelError(f"expected the files that {index.name} of {name} names, got no {', '.join(missing[:3]) or 'names'}.")
    return [path for path in paths.values() if path is not None]


def _inside(filename: Any, name: str) -> str:
    """Reject a file name that leads out of the model's folder."""
    if not isinstance(filename, str) or Path(filename).is_absolute() or ".." in Path(filename).parts:
        raise ModelError(f"expected the weights of {name} in its own folder, got {filename!r}; get an intact copy of the model.")
    return filename


def _dtypes_pickled(path: Path) -> dict[str, str]:
    """The type of each tensor in a pickle, without reading its numbers or running its code."""
    tensors = torch.load(path, map_location="meta", weights_only=True)
    return {key: str(tensor.dtype) for key, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}


def _dtypes_in(path: Path, name: str) -> dict[str, str]:
    """The type of each tensor in a safetensors file, from its header."""
    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118  it is no mapping
    except (SafetensorError, OSError) as error:
        with path.open("rb") as file:
            begin = file.read(4)
        if begin.startswith(MAGIC_OF_PICKLES):
            reason = "it is a renamed Python pickle, which can run any code"
        else:
            reason = " ".join(str(error).split())
        raise ModelError(
            f"expected a safetensors file, but {path.name} of {name} cannot be read as one ({reason}); get an intact copy."
        ) from None


def _size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
