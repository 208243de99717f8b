"""The number that explanations of the output explain, and the positions where the model outputs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models import Answer
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import replica_of
from identiformer.tokens import Tokens

Kind = Literal["class", "score", "token", "probability", "pooled"]
Output = Literal["logit", "probability"]


@dataclass(frozen=True, eq=False)
class Target:
    """One number that a model outputs for a text.

    Logits are taken relative to their mean: the softmax ignores what all logits have in common, and a removed token may change
    that more than anything else.

    Parameters
    ----------
    kind : str
        - "class": the logit of the predicted class;
        - "score": the output of a classification head with one class, as a regression has;
        - "token": the logit of the predicted next token, after the last position; or of the answer, if the example has one, at
          the position before it. A causal model that was loaded without its head has the logits of its token embeddings
          if its configuration ties both;
        - "probability": the probability of a generated token, which is not relative to anything;
        - "pooled": of any other model the length of its pooled output along the unchanged direction,
          ⟨p(x), p(x⁰)⟩/‖p(x⁰)‖. p is the mean of the last hidden vectors over the tokens that are not special.
    title : str
        In a few words, for tables and figures.
    positions : tuple of int
        Where the number is read: a classification token, the last token, or those that are pooled.
    index : int, optional
        Of the class or token.
    direction : float64 tensor (width), optional
        What the last hidden vector is multiplied with; None where the number is read from the network's logits.
    unchanged : float
        The number on the text itself.
    """

    kind: Kind
    title: str
    positions: tuple[int, ...]
    index: int | None
    direction: Float64[Tensor, "width"] | None
    unchanged: float

    def replica(self, model: LoadedModel) -> Any:
        """A replica of the network whose outputs have the number: with the task head, or only the backbone."""
        return replica_of(model.network) if self.direction is None else model.replica()

    def of_logits(self, logits: Float[Tensor, "*batch logit"]) -> Float64[Tensor, "*batch"]:
        """The number in logits, or in anything with one entry per logit: the entry minus the mean, if there are several."""
        if self.kind == "probability":
            return logits.double().softmax(-1)[..., self.index]
        entry = logits[..., self.index].double()
        return entry if self.kind == "score" else entry - logits.mean(-1).double()

    def value(self, result: Any, read: Bool[Tensor, "batch position"] | None = None) -> Float64[Tensor, "batch"]:
        """The number in the outputs of the network on several inputs; it can be differentiated.

        Parameters
        ----------
        result
            What the network returns.
        read : bool tensor (batch position), optional
            Where to read it, if tokens were deleted and `positions` no longer holds. A classification head reads by itself.
        """
        if self.kind in ("class", "score"):
            return self.of_logits(result.logits)
        states = result.logits if self.direction is None else result.last_hidden_state
        if read is None:
            states = states[:, list(self.positions)]
        outputs = self.of_logits(states) if self.direction is None else states.double() @ self.direction.to(states.device)
        return outputs.mean(-1) if read is None else (outputs * read).sum(-1) / read.sum(-1)


def find_target(model: LoadedModel, batch: Batch, causal: bool, answer: int | None = None) -> Target:
    """The number that a model outputs for one text; one forward pass.

    causal: whether no position sees a later one, so that only the last position has seen the whole text.
    answer: the position of a token whose prediction by a language model is explained, instead of the one after the text.
    """
    if batch.decoder is not None:
        raise UnsupportedModelError(
            f"the output of {model.name}, an encoder-decoder, is explained for its encoder only; pass one text and no pair."
        )
    tokens = batch.encoder[0]
    last = (len(tokens) - 1,)
    predicted = (last[0], None) if not answer else (answer - 1, tokens.ids[answer])
    logits = _logits(model, batch)
    if logits is not None and logits.ndim == 1:
        return _class_target(model, logits, last if causal else _classification_positions(model, tokens))
    if logits is not None and causal and model.network.get_output_embeddings() is not None:
        return _token_target(model, logits, predicted)
    states = _run(model, model.replica(), batch).last_hidden_state[0]
    if logits is None and causal and getattr(model.network.config, "tie_word_embeddings", False):
        embeddings = model.backbone.get_input_embeddings().weight.detach()
        if embeddings.shape[-1] == states.shape[-1]:
            return _token_target(model, states.to(embeddings) @ embeddings.mT, predicted, embeddings)
    regular = tuple(position for position, special in enumerate(tokens.special) if not special)
    return _pooled_target(states, regular or tuple(range(len(tokens))))


def answer_targets(answer: Answer, steps: Sequence[int], output: Output = "logit") -> list[Target]:
    """The logit or probability of some generated tokens, each read at the position before its token; one forward pass."""
    model, ids = answer.model, answer.tokens.ids
    logits = _logits(model, answer.batch)
    if logits is None or logits.ndim != 2:
        raise UnsupportedModelError(f"expected the logits of a language model, got none from {model.name}.")
    predicted = [(answer.positions[step], ids[answer.start + step]) for step in steps]
    if output == "logit":
        return [_token_target(model, logits, pair) for pair in predicted]
    return [
        Target(
            "probability",
            f"probability of {model.tokenizer.decode([token])!r}",
            (position,),
            token,
            None,
            float(logits[position].double().softmax(-1)[token]),
        )
        for position, token in predicted
    ]


def _run(model: LoadedModel, replica: Any, batch: Batch) -> Any:
    with torch.no_grad():
        return model.forward(replica, batch.inputs)


def _logits(model: LoadedModel, batch: Batch) -> Tensor | None:
    """The logits of a network with a task head: one per class, or of every position."""
    if model.network is model.backbone or model.network.config.is_encoder_decoder:
        return None
    logits = getattr(_run(model, replica_of(model.network), batch), "logits", None)
    return logits[0] if isinstance(logits, Tensor) else None


def _class_target(model: LoadedModel, logits: Tensor, positions: tuple[int, ...]) -> Target:
    if len(logits) == 1:
        return Target("score", "the only output", positions, 0, None, float(logits[0]))
    index = int(logits.argmax())
    name = (getattr(model.network.config, "id2label", None) or {}).get(index, index)
    return Target("class", f"logit of class {name}", positions, index, None, float(logits[index] - logits.mean()))


def _classification_positions(model: LoadedModel, tokens: Tokens) -> tuple[int, ...]:
    """The position of the classification token; of a model that averages its last hidden vectors, all positions."""
    if getattr(model.network.config, "classifier_pooling", "cls") == "mean":  # ModernBERT
        return tuple(range(len(tokens)))
    token = getattr(model.tokenizer, "cls_token_id", None)
    return (tokens.ids.index(token),) if token in tokens.ids else (0,)


def _token_target(
    model: LoadedModel, logits: Tensor, predicted: tuple[int, int | None], embeddings: Tensor | None = None
) -> Target:
    """A token at a position: the most probable one where it is None."""
    position, token = predicted
    index = int(logits[position].argmax()) if token is None else token
    direction = None if embeddings is None else (embeddings[index] - embeddings.mean(0)).double().cpu()
    title, value = f"logit of {model.tokenizer.decode([index])!r}", float(logits[position, index] - logits[position].mean())
    return Target("token", title, (position,), index, direction, value)


def _pooled_target(states: Tensor, positions: tuple[int, ...]) -> Target:
    pooled = states[list(positions)].double().cpu().mean(0)
    length = float(pooled.norm())
    if not 0 < length < float("inf"):
        raise InputError(f"expected a pooled output to explain, got one of length {length}; check the model's weights.")
    return Target("pooled", "pooled output", positions, None, pooled / length, length)
