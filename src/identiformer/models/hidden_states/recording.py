"""One pass of a model over a corpus: the input x and the output of every layer, for each token, on disk."""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from identiformer.errors import InputError, ResultError, UnsupportedModelError
from identiformer.models.encoding.text import Batch, check_ids, encode, encode_one, loses_a_long_word
from identiformer.models.hidden_states.inputs import first_input, input_norm
from identiformer.models.hidden_states.store import HiddenStates, StateWriter, open_states
from identiformer.models.model import Model
from identiformer.progress import WorkBar
from identiformer.texts import Example, corpus_hash

NAMED_BY = ("revision", "dtype", "corpus_hash", "max_length")
"""What hidden states depend on: a folder of them is named by it."""
BATCH_TOKENS = 4096  # padded ones; more brings nothing on a processor and costs memory


@contextmanager
def hidden_states(
    model: Model,
    examples: Sequence[Example],
    store: str | os.PathLike[str] | None,
    *,
    max_length: int | None = None,
    bar: WorkBar | None = None,
) -> Iterator[HiddenStates]:
    """The hidden states of a corpus: found in the store, or made and kept there; without a store, gone afterwards.

    max_length: cut examples to so many tokens; otherwise one that is longer than the model takes is an error.
    """
    if store is not None:
        yield _found_or_made(model, examples, Path(store), max_length, bar)
        return
    with tempfile.TemporaryDirectory(prefix="identiformer-") as folder:
        yield _found_or_made(model, examples, Path(folder), max_length, bar)


def _found_or_made(
    model: Model, examples: Sequence[Example], store: Path, max_length: int | None, bar: WorkBar | None
) -> HiddenStates:
    source = {
        "model": model.name,
        "revision": model.revision,
        "architecture": type(model.network).__name__,
        "dtype": str(model.network.dtype).removeprefix("torch."),
        "corpus_hash": corpus_hash(examples),
        "max_length": str(max_length),
        **{f"{package}_version": version(package) for package in ("identiformer", "torch", "transformers")},
    }
    key = "\0".join(source[name] for name in NAMED_BY)
    target = store / f"hidden-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not target.exists():
        return _make(model, examples, target, source, max_length, bar)
    found = open_states(target)
    if any(found.source.get(name) != source[name] for name in NAMED_BY):
        raise ResultError(f"expected the hidden states of this model and corpus in {target}, got others; delete the folder.")
    return found


def _make(
    model: Model, examples: Sequence[Example], target: Path, source: dict[str, str], max_length: int | None, bar: WorkBar | None
) -> HiddenStates:
    limited = model if max_length is None else model.limited(max_length)
    batch = _encode(limited, examples, cuts=max_length is not None)
    cut = _cut(limited, examples, batch)
    source |= {"cut": str(cut)} if cut or max_length is not None else {}
    lengths = np.array([len(tokens) for tokens in batch.encoder])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    arrays = {
        "ids": np.concatenate([tokens.ids for tokens in batch.encoder]),
        "starts": starts,
        "segments": np.concatenate([tokens.segments for tokens in batch.encoder]),
        "special": np.concatenate([tokens.special for tokens in batch.encoder]),
        "texts": np.array([text for tokens in batch.encoder for text in tokens.texts]),
    }
    if bar is not None:
        bar.expect(int(lengths.sum()))
    writer = StateWriter(target, source, int(starts[-1]), arrays)
    try:
        replica = model.replica()
        norm = input_norm(replica, lambda: _run(model, replica, batch, np.array([0])))
        for chosen in _by_length(lengths):
            inputs, hidden = _states(model, replica, batch, chosen, norm)
            for row, number in enumerate(chosen):
                length = int(lengths[number])
                rows = slice(int(starts[number]), int(starts[number]) + length)
                writer.put(rows, inputs[row, :length], [layer[row, :length] for layer in hidden])
            if bar is not None:
                bar.advance(int(lengths[chosen].sum()))
        return writer.finish()
    finally:
        writer.clear()


def _encode(model: Model, examples: Sequence[Example], cuts: bool) -> Batch:
    """All examples as tokens; of an encoder-decoder the encoder reads both texts of a pair."""
    paired = [example.pair is not None for example in examples]
    if any(paired) and not all(paired):
        raise InputError("expected pairs of texts throughout or nowhere, got both; split the corpus in two.")
    pairs = [example.pair for example in examples if example.pair is not None] or None
    texts = [example.text for example in examples]
    batch = encode(model.tokenizer, texts, pairs, model.positions, cuts, False)
    return check_ids(batch, model.backbone, model.tokenizer)


def _cut(model: Model, examples: Sequence[Example], batch: Batch) -> int:
    """How many examples have more tokens than the model takes, or words that are too long for the tokenizer."""
    longest = model.positions or 2**31
    return sum(
        len(encode_one(model.tokenizer, each.text, each.pair)["input_ids"]) > longest
        or loses_a_long_word(model.tokenizer, tokens, each.text, each.pair)
        for each, tokens in zip(examples, batch.encoder, strict=True)
    )


def _by_length(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Examples of like length together, so that little is padded."""
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        count = max(1, BATCH_TOKENS // int(lengths[order[0]]))
        yield order[:count]
        order = order[count:]


def _run(model: Model, replica: Any, batch: Batch, chosen: np.ndarray) -> Any:
    longest = max(len(batch.encoder[number]) for number in chosen)
    inputs = {name: tensor[torch.from_numpy(chosen), :longest] for name, tensor in batch.inputs.items()}
    with torch.no_grad():
        return model._forward(replica, inputs, False, output_hidden_states=True)


def _states(model: Model, replica: Any, batch: Batch, chosen: np.ndarray, norm: Any) -> tuple[Tensor, list[Tensor]]:
    with first_input(norm) as found:
        outcome = _run(model, replica, batch, chosen)
    before, *hidden = _vectors(model, outcome, len(chosen))
    inputs = found[0] if found and found[0].shape[:2] == before.shape[:2] else before
    return inputs.float().cpu(), [layer.float().cpu() for layer in hidden]


def _vectors(model: Model, outcome: Any, examples: int) -> tuple[Tensor, ...]:
    """The hidden states of a run, or a refusal where they are not vectors of one width, one a token and layer."""
    family = model.network.config.model_type
    states = getattr(outcome, "hidden_states", None) or ()
    shapes = {tuple(state.shape[:-1]) if isinstance(state, Tensor) else None for state in states}
    if len(states) < 2 or len(shapes) > 1 or None in shapes or states[0].ndim != 3 or len(states[0]) != examples:
        raise UnsupportedModelError(
            f"the {family} family gives no hidden vector a token and layer; use a model of another family, or the part of this "
            "one that does."
        )
    widths = [state.shape[-1] for state in states[1:]]
    if len(set(widths)) > 1:
        raise UnsupportedModelError(
            f"the {family} family gives hidden vectors of other widths from layer to layer, {', '.join(map(str, widths))}; use "
            "a model whose layers are equally wide."
        )
    return states
