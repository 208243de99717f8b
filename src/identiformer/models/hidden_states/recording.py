"""Run a model over a corpus once and store the input vector x and the hidden vector of every layer for each token."""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from identiformer.errors import InputError, ResultError, UnsupportedModelError
from identiformer.models.derivatives.input_site import embedding_norm, first_block, first_inputs, inputs_up_to
from identiformer.models.encoding.text import Batch, check_ids, encode, encode_one, loses_a_long_word
from identiformer.models.hidden_states.store import HiddenStates, open_states, write_states
from identiformer.models.library_output import library_versions
from identiformer.models.loaded import LoadedModel
from identiformer.progress import WorkBar
from identiformer.texts import Example, corpus_hash

NAMED_BY = ("revision", "dtype", "corpus_hash", "max_length", "definition")
"""What hidden states depend on; the name of their folder is a hash of it."""
DEFINITION = "2"
"""Raised when x or e^l of some model are defined differently, so that states stored before are computed again."""
BATCH_TOKENS = 4096  # with padding; larger batches are not faster on a CPU and need more memory


@contextmanager
def hidden_states(
    model: LoadedModel,
    examples: Sequence[Example],
    store: str | os.PathLike[str] | None,
    *,
    max_length: int | None = None,
    bar: WorkBar | None = None,
) -> Iterator[HiddenStates]:
    """Open the hidden states of a corpus from the store, or compute and store them; without a store they are temporary.

    max_length: truncate examples to this many tokens; without it, an example longer than the model accepts is an error.
    """
    source = {
        **model.identity,
        "corpus_hash": corpus_hash(examples),
        "max_length": str(max_length),
        "definition": DEFINITION,
        **library_versions(),
    }
    key = "\0".join(source[name] for name in NAMED_BY)
    name = f"hidden-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with tempfile.TemporaryDirectory(prefix="identiformer-") if store is None else nullcontext(store) as folder:
        target = Path(folder) / name
        states = open_states(target) if target.exists() else _compute(model, examples, target, source, max_length, bar)
        if any(states.source.get(name) != source[name] for name in NAMED_BY):
            raise ResultError(f"expected the hidden states of this model and corpus in {target}, got others; delete the folder.")
        yield states


def _compute(
    model: LoadedModel,
    examples: Sequence[Example],
    target: Path,
    source: dict[str, str],
    max_length: int | None,
    bar: WorkBar | None,
) -> HiddenStates:
    limited = model if max_length is None else model.limited(max_length)
    batch = _encode(limited, examples, truncate=max_length is not None)
    cut = _count_cut(limited, examples, batch)
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

    def vectors() -> Iterator[tuple[slice, Tensor, list[Tensor]]]:
        replica = model.replica()
        site = _input_site(model, replica, batch, int(lengths.argmax()))
        for chosen in _by_length(lengths):
            x, hidden = _vectors(model, replica, batch, chosen, *site)
            for row, number in enumerate(chosen):
                length = int(lengths[number])
                rows = slice(int(starts[number]), int(starts[number]) + length)
                yield rows, x[row, :length], [layer[row, :length] for layer in hidden]
            if bar is not None:
                bar.advance(int(lengths[chosen].sum()))

    return write_states(target, source, arrays, vectors())


def _encode(model: LoadedModel, examples: Sequence[Example], truncate: bool) -> Batch:
    """Tokenize all examples; the encoder of an encoder-decoder reads both texts of a pair."""
    paired = [example.pair is not None for example in examples]
    if any(paired) and not all(paired):
        raise InputError("expected either pairs or single texts, got both; split the corpus in two.")
    pairs = [example.pair for example in examples if example.pair is not None] or None
    texts = [example.text for example in examples]
    batch = encode(model.tokenizer, texts, pairs, model.positions, truncate, False)
    return check_ids(batch, model.backbone, model.tokenizer)


def _count_cut(model: LoadedModel, examples: Sequence[Example], batch: Batch) -> int:
    """Count the examples with more tokens than the model accepts, or with words too long for the tokenizer."""
    longest = model.positions or 2**31
    return sum(
        len(encode_one(model.tokenizer, example.text, example.pair)["input_ids"]) > longest
        or loses_a_long_word(model.tokenizer, tokens, example.text, example.pair)
        for example, tokens in zip(examples, batch.encoder, strict=True)
    )


def _by_length(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yield batches of examples of similar length, which need little padding."""
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        count = max(1, BATCH_TOKENS // int(lengths[order[0]]))
        yield order[:count]
        order = order[count:]


def _run(model: LoadedModel, replica: Any, batch: Batch, chosen: np.ndarray) -> Any:
    longest = max(len(batch.encoder[number]) for number in chosen)
    inputs = {name: tensor[torch.from_numpy(chosen), :longest] for name, tensor in batch.inputs.items()}
    with torch.no_grad():
        return model.forward(replica, inputs, output_hidden_states=True)


def _input_site(model: LoadedModel, replica: nn.Module, batch: Batch, example: int) -> tuple[nn.Module | None, bool]:
    """Return the module whose input is x, found on one example, and whether that input has positions as its first axis."""
    try:
        block, attends = first_block(replica, model.sites(batch)[0].path), True
    except UnsupportedModelError:  # hidden states can be recorded where attention cannot
        stacks = (module for module in replica.modules() if isinstance(module, nn.ModuleList) and len(module))
        block, attends = next((stack[0] for stack in stacks), None), False
    if block is None:
        return None, False
    with inputs_up_to(replica, block) as inputs:
        outcome = _run(model, replica, batch, np.array([example]))
    # Where attention is unknown, or blocks run without their hooks (SqueezeBERT), x is the input of the first normalization.
    site = (embedding_norm(inputs) or block) if attends and block in inputs else next(iter(inputs), None)
    positions = _hidden_states(model, outcome, 1)[0].shape[1]
    if site is None or (site is block and inputs[block].shape[:2].numel() != positions):
        return None, False  # the first hidden state is x; CPM-Ant also feeds its blocks a prompt
    return site, inputs[site].shape[0] != 1


def _vectors(
    model: LoadedModel, replica: nn.Module, batch: Batch, chosen: np.ndarray, site: nn.Module | None, positions_first: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return x and the hidden vectors of each layer, (example position width)."""
    with first_inputs([] if site is None else [site]) as inputs:
        outcome = _run(model, replica, batch, chosen)
    first, *hidden = _hidden_states(model, outcome, len(chosen))
    x = first if site is None else inputs[site].transpose(0, 1) if positions_first else inputs[site]
    return x.float().cpu(), [layer.float().cpu() for layer in hidden]


def _hidden_states(model: LoadedModel, outcome: Any, examples: int) -> tuple[Tensor, ...]:
    """Return the hidden states of a run, or raise unless there is one vector of one width per token and layer."""
    family = model.network.config.model_type
    states = getattr(outcome, "hidden_states", None) or ()
    shapes = {tuple(state.shape[:-1]) if isinstance(state, Tensor) else None for state in states}
    if len(states) < 2 or len(shapes) > 1 or None in shapes or states[0].ndim != 3 or len(states[0]) != examples:
        raise UnsupportedModelError(
            f"the {family} family does not return one hidden vector per token and layer; use a model of another family, or the "
            "component of this one that does."
        )
    widths = [state.shape[-1] for state in states[1:]]
    if len(set(widths)) > 1:
        raise UnsupportedModelError(
            f"the {family} family returns hidden vectors of different widths, {', '.join(map(str, widths))}; use a model whose "
            "layers are equally wide."
        )
    return states


TOLERANCE = 1e-4  # of the largest input: sums of three embeddings in float32 differ by less


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Word embeddings, and the offset that position and segment add to that of each token."""

    words: Tensor  # (piece width)
    offsets: Tensor  # (offset width)
    offset_index: Tensor  # (token): the index of its offset
    ids: Tensor  # (token): its word piece


def vocabulary_of(model: LoadedModel, states: HiddenStates) -> Vocabulary:
    """Split every x of a corpus into word embedding + offset of position and segment, or raise where that is not possible."""
    words = model.backbone.get_input_embeddings().weight.detach().float().cpu()
    ids = torch.from_numpy(states.ids)
    inputs = torch.from_numpy(np.array(states.inputs))
    positions = np.stack([states.position, states.segments])
    _, first, index = np.unique(positions, axis=1, return_index=True, return_inverse=True)
    if words.shape[1] == inputs.shape[1]:
        added = inputs - words[ids]
        vocabulary = Vocabulary(words, added[torch.from_numpy(first)], torch.from_numpy(index.reshape(-1)), ids)
        if float((added - vocabulary.offsets[vocabulary.offset_index]).abs().max()) <= TOLERANCE * float(inputs.abs().max()):
            return vocabulary
    raise UnsupportedModelError(
        f"the inputs of {model.name} are not its word embeddings plus an offset per position, so its vocabulary cannot be "
        "searched; leave vocabulary=True (--vocabulary) out."
    )
