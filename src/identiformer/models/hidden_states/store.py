"""Hidden states of a corpus in a folder that is complete or absent, with its large arrays memory-mapped."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from identiformer.errors import InputError, ResultError
from identiformer.files import publish, remove, require_regular, reserve, temporary_path
from identiformer.typed_json import read_json

SMALL_ARRAYS = ("ids", "starts", "segments", "special", "texts")
LARGE_ARRAYS = ("inputs", "hidden")


@dataclass(frozen=True)
class Origin:
    """The model and layer that vectors come from; layer 0 is the input."""

    model: str
    revision: str
    layer: int

    def __str__(self) -> str:
        return f"layer {self.layer} of {self.model}"


@dataclass(frozen=True, eq=False)
class LayerStates:
    """The vectors of one layer, one row per token, and their origin."""

    values: Tensor
    origin: Origin


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """Input vectors and hidden states of every token of a corpus, in corpus order."""

    folder: Path
    source: Mapping[str, str]
    inputs: np.ndarray  # x, (token width), float32
    hidden: np.ndarray  # e^1 … e^L, (layer token width), float32, memory-mapped
    ids: np.ndarray
    starts: np.ndarray
    """The first token of each example, and last the number of tokens."""
    segments: np.ndarray
    special: np.ndarray
    texts: np.ndarray

    @property
    def layers(self) -> int:
        return len(self.hidden)

    @property
    def examples(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    @cached_property
    def example(self) -> np.ndarray:
        """The example of each token."""
        return np.repeat(np.arange(self.examples), self.lengths)

    @cached_property
    def position(self) -> np.ndarray:
        """The position of each token in its example."""
        return np.arange(len(self.ids)) - self.starts[self.example]

    @cached_property
    def positional(self) -> bool:
        """Whether x contains positions: without them, a word piece has the same x at every position of an example."""
        order = np.lexsort((self.position, self.ids, self.segments, self.example))
        same = np.ones(len(order) - 1, dtype=bool)
        for key in (self.example, self.segments, self.ids):
            same &= key[order][1:] == key[order][:-1]
        first, second = order[:-1][same], order[1:][same]
        return len(first) == 0 or bool((self.inputs[first] != self.inputs[second]).any())

    def layer(self, number: int) -> LayerStates:
        """Read the vectors of one layer from disk; 0 is the input."""
        if not 0 <= number <= self.layers:
            raise InputError(f"expected a layer from 0 (the input) to {self.layers}, got {number}.")
        values = self.inputs if number == 0 else self.hidden[number - 1]
        origin = Origin(self.source["model"], self.source["revision"], number)
        return LayerStates(torch.from_numpy(np.array(values)), origin)


def write_states(
    target: Path,
    source: Mapping[str, str],
    arrays: Mapping[str, np.ndarray],
    vectors: Iterable[tuple[slice, Tensor, list[Tensor]]],
) -> HiddenStates:
    """Write a folder of hidden states whole or not at all.

    vectors: for each example its rows, x (token width), and e^l (token width) of each layer.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(target)
    temporary.mkdir()
    maps: dict[str, np.memmap] = {}
    try:
        for rows, x, hidden in vectors:
            if not maps:
                tokens = len(arrays["ids"])
                shapes = {"inputs": (tokens, x.shape[-1]), "hidden": (len(hidden), tokens, hidden[0].shape[-1])}
                maps = {name: _new_map(temporary / f"{name}.npy", shape) for name, shape in shapes.items()}
            maps["inputs"][rows] = x.numpy()
            for number, values in enumerate(hidden):
                maps["hidden"][number, rows] = values.numpy()
        for values in maps.values():
            if not bool(np.isfinite(values).all()):
                raise InputError("expected finite hidden states, got NaN or infinity; check the model's weights.")
            values.flush()
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array)
        (temporary / "about.json").write_text(json.dumps(dict(source), ensure_ascii=False), encoding="utf-8")
        if not target.exists():  # another process may have finished first
            publish(temporary, target)
    finally:
        maps.clear()
        remove(temporary)
    return open_states(target)


def _new_map(path: Path, shape: tuple[int, ...]) -> np.memmap:
    values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    reserve(path)  # a page that the disk has no room for would kill the process
    return values


def open_states(folder: Path) -> HiddenStates:
    """Open the hidden states in a folder."""
    remedy = "delete the folder and run again"
    source = read_json(folder / "about.json", dict[str, str], remedy)
    try:
        for name in (*SMALL_ARRAYS, *LARGE_ARRAYS):
            require_regular(folder / f"{name}.npy")
        arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in SMALL_ARRAYS}
        maps = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in LARGE_ARRAYS}
        states = HiddenStates(folder, source, **maps, **arrays)
        _require_consistent(states)
    except (OSError, ValueError, TypeError, EOFError, MemoryError) as error:
        raise ResultError(f"the hidden states in {folder} are damaged ({type(error).__name__}); {remedy}.") from error
    return states


def _require_consistent(states: HiddenStates) -> None:
    """Raise ValueError unless there is one vector, id, segment and text per token, and examples are contiguous."""
    flat = (states.ids, states.segments, states.special, states.texts)
    shapes = {(len(states.ids),), states.inputs.shape[:1], states.hidden.shape[1:2], *(array.shape for array in flat)}
    shaped = len(shapes) == 1 and states.hidden.ndim == 3 and states.inputs.ndim == 2 and states.starts.ndim == 1
    whole = all(array.dtype.kind in "iu" for array in (states.ids, states.starts, states.segments))
    floats = states.hidden.dtype == states.inputs.dtype == np.float32
    if not shaped or not whole or not floats or len(states.starts) < 2:
        raise ValueError("inconsistent arrays")
    if states.starts[0] != 0 or states.starts[-1] != len(states.ids) or np.diff(states.starts).min() < 1:
        raise ValueError("examples are not contiguous")
