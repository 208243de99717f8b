"""Run a model on a text without some of its tokens: masked, deleted, replaced by the mean embedding or by other tokens.

Every kind leaves the data that the model was trained on in another way, so conclusions should hold for several of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.families import READ_PADDING
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel

Kind = Literal["mask", "delete", "mean_embedding", "resample"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PLACEHOLDERS = ("mask", "unk", "pad", "eos", "bos")
"""Roles of the token that replaces a removed one, by preference: a language model has no mask token."""
TOKENS_AT_ONCE = 4096


def placeholder(model: LoadedModel) -> int:
    """The token that replaces a removed one."""
    for role in PLACEHOLDERS:
        token = getattr(model.tokenizer, f"{role}_token_id", None)
        if token is not None:
            return int(token)
    raise UnsupportedModelError(
        f"expected a tokenizer with a token for {', '.join(PLACEHOLDERS[:-1])} or {PLACEHOLDERS[-1]}, got none of them; remove "
        "tokens in another way than by a mask."
    )


def outputs_without(
    model: LoadedModel,
    replica: Any,
    batch: Batch,
    removed: Bool[Tensor, "copy position"],
    kind: Kind,
    seed: int = 0,
    pool: Sequence[int] = (),
) -> Iterator[tuple[Int[Tensor, "run"], Any, Int[Tensor, "run left"]]]:
    """Run copies of one text, each without some of its tokens, several at once.

    Parameters
    ----------
    replica
        Of the network or its backbone.
    batch : Batch
        One text.
    removed : bool tensor (copy position)
        Which tokens each copy lacks.
    kind : str
        - "mask": the mask token in their place, or in a model without one the token for unknown words, padding or the end;
        - "delete": a shorter text. Where nothing is left, one placeholder remains;
        - "mean_embedding": the mean of all token embeddings in their place;
        - "resample": in their place tokens of a pool, drawn once per position.
    seed : int
        Of the draws.
    pool : sequence of int
        Tokens of other texts to draw from; without any, the other tokens of the text.

    Yields
    ------
    Which copies ran, what the network returned, and the position in the text of each of its positions, -1 for padding.
    """
    if "input_ids" not in batch.inputs or batch.examples != 1 or batch.decoder is not None:
        raise UnsupportedModelError("expected one text to remove tokens from, got an image, audio, or a pair for a decoder.")
    if removed.shape[1] != batch.longest:
        raise InputError(f"expected removals of {batch.longest} tokens, got {removed.shape[1]}.")
    kept = ~removed if kind == "delete" else torch.ones_like(removed)
    kept[~kept.any(-1), 0] = True
    lengths = kept.sum(-1)
    order = lengths.argsort(stable=True)
    for copies in _split(lengths[order], order, model.backbone.config.model_type in READ_PADDING):
        positions = _positions(kept[copies])
        inputs = {name: _gathered(tensor, positions, name, model) for name, tensor in batch.inputs.items()}
        gone = removed[copies].gather(1, positions.clamp(min=0)) & (positions >= 0)
        if kind in ("mask", "delete") and bool(gone.any()):
            inputs["input_ids"][gone] = placeholder(model)
        elif kind == "resample":
            replacements = _drawn(batch, pool, seed)[positions.clamp(min=0)]
            inputs["input_ids"] = torch.where(gone, replacements, inputs["input_ids"])
        with _mean_embeddings(model, replica, gone) if kind == "mean_embedding" else nullcontext(), torch.no_grad():
            yield copies, model.forward(replica, inputs), positions


def _split(lengths: Tensor, order: Tensor, exact: bool) -> Iterator[Tensor]:
    """Copies to run together: of similar length, or of equal length where a model reads padding."""
    groups = order.split(torch.unique_consecutive(lengths, return_counts=True)[1].tolist()) if exact else (order,)
    for group in groups:
        yield from group.split(max(1, TOKENS_AT_ONCE // int(lengths.max())))


def _positions(kept: Tensor) -> Tensor:
    """The positions that are left in each copy, padded with -1 on the right."""
    rows = [row.nonzero()[:, 0] for row in kept]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


def _gathered(tensor: Tensor, positions: Tensor, name: str, model: LoadedModel) -> Tensor:
    """An input with one entry per token, at the positions that are left."""
    padding = (model.tokenizer.pad_token_id or 0) if name == "input_ids" else 0
    return torch.where(positions >= 0, tensor[0, positions.clamp(min=0)], padding)


def _drawn(batch: Batch, pool: Sequence[int], seed: int) -> Tensor:
    """For each position a token of the pool, drawn at random among those that differ from the position's own."""
    tokens, generator = batch.encoder[0], torch.Generator().manual_seed(seed)
    candidates = torch.tensor(list(pool or tokens.regular_ids or tokens.ids))
    drawn = []
    for token in tokens.ids:
        others = candidates[candidates != token]
        others = others if len(others) else candidates
        drawn.append(int(others[torch.randint(len(others), (), generator=generator)]))
    return torch.tensor(drawn)


@contextmanager
def _mean_embeddings(model: LoadedModel, replica: Any, gone: Tensor) -> Iterator[None]:
    """Within it, the embedding layer returns the mean of all embeddings at some positions of each copy."""
    layer = _embedding(model, replica)
    mean = layer.weight.detach().double().mean(0)

    def replace(_: Any, __: Any, vectors: Tensor) -> Tensor:
        return torch.where(gone[..., None].to(vectors.device), mean.to(vectors), vectors)

    hook = layer.register_forward_hook(replace)
    try:
        yield
    finally:
        hook.remove()


def _embedding(model: LoadedModel, replica: Any) -> Any:
    try:
        layer = replica.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        layer = None
    if not isinstance(layer, torch.nn.Embedding):
        raise UnsupportedModelError(
            f"the {model.backbone.config.model_type} family has no table of token embeddings to take the mean of."
        )
    return layer
