"""What a model outputs, as the effects of attention weights are measured on it: a number, distributions, or vectors."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.equations.effects.cotangents import direction_cotangents, divergence, fisher_cotangents
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.encoding.text import Batch
from identiformer.models.generation.answer import Answer
from identiformer.models.linear_maps import in_float32
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import replica_of

OutputTarget = str | int | tuple[str, str] | None
"""What a user names: see `find_objective`."""
NAMED = ("output", "next", "embedding", "hidden")


@dataclass(frozen=True, eq=False)
class Objective:
    """What of a model's output is compared with and without an attention weight.

    Parameters
    ----------
    kind : {"number", "distributions", "vectors"}
        What `outputs` returns: one number per copy of the text; logits (copy position token), whose distributions are compared by
        their KL divergence, summed over positions; or vectors (copy position width), compared by 1 - cos.
    title : str
        What it is, as the subject of a sentence.
    unit : str
        Of its changes: nats, logits, or 1 - cos.
    outputs : callable
        Reads it from what the network returns, of positions from a number on; can be differentiated.
    prediction : str
        The predicted token or class; empty where there is none.
    probability : float
        That the model assigns to the prediction; NaN where there is none.
    options : dict
        Of the forward pass, which leave out what is not read.
    """

    kind: Literal["number", "distributions", "vectors"]
    title: str
    unit: str
    outputs: Callable[[Any, int], Tensor]
    prediction: str = ""
    probability: float = float("nan")
    positions: tuple[int, ...] = ()
    """Of the tokens from which it is read; all of them if it is empty."""
    options: tuple[tuple[str, Any], ...] = ()
    whole: "Objective | None" = None
    """The distribution that a number is read from: what stays the same if the number stays."""

    @property
    def budget(self) -> float:
        """The change of the whole output that counts as none: 0.01 nats of one prediction, 0.001 per position of several."""
        if self.whole is not None:
            return self.whole.budget
        if self.kind == "distributions":
            return 0.001 * len(self.positions) if len(self.positions) > 1 else 0.01
        return 0.001

    @property
    def is_number(self) -> bool:
        """Whether effects have a sign: positive where a weight increases the number."""
        return self.kind == "number"

    def effects(self, unchanged: Tensor, changed: Tensor) -> Float[Tensor, " copy"]:
        """F - f' of a number, otherwise how far the outputs of each changed copy are from the unchanged ones, in float64."""
        if self.kind == "number":
            return unchanged.double() - changed.double()
        if self.kind == "distributions":  # a resumed run has the last positions only; those before did not change
            known = unchanged[0, -changed.shape[1] :]
            return torch.stack([divergence(known, copy).double().sum() for copy in changed])
        return angular_distance(unchanged.double(), changed.double()).sum(-1)

    def deviation(self, unchanged: Tensor, changed: Tensor) -> float:
        """How far the output of one changed run is from the unchanged one, whatever its sign."""
        return abs(float(self.effects(unchanged, changed)[0]))

    def scalars(self, result: Any, draws: int, seed: int) -> list[Callable[[], Tensor]]:
        """The numbers whose gradients give effects: the number itself, or random combinations, computed one at a time."""
        outputs = self.outputs(result, 0)
        if self.kind == "number":
            return [lambda: outputs[0]]
        generator = torch.Generator().manual_seed(seed)
        fixed = outputs[0].detach()
        if self.kind == "vectors":
            directions = direction_cotangents(fixed, draws, generator)
            return [lambda direction=direction: (direction * outputs[0]).sum() for direction in directions]
        fixed = fixed.log_softmax(-1)
        return [lambda: (fisher_cotangents(fixed, generator) * outputs[0]).sum() for _ in range(draws)]


def angular_distance(vectors: Float[Tensor, "*#copy position width"], others: Float[Tensor, "*copy position width"]) -> Tensor:
    """1 - cos per position, as half the squared distance of unit vectors: exact where they are almost equal."""
    first, second = (torch.nn.functional.normalize(each, dim=-1) for each in (vectors, others))
    return (first - second).square().sum(-1) / 2


def find_objective(model: LoadedModel, batch: Batch, target: OutputTarget = None, answer: Answer | None = None) -> Objective:
    """What a target names in the output of a model for one text; up to two forward passes.

    `target` is one of:

    - "output", the default: the distributions of all predicted tokens, in an answer those of its tokens, or of the classes; of a
      model without either, its embedding, the mean of the last hidden vectors;
    - "next": the log-probability of the most probable next token, or of the most probable class;
    - a token or class: its log-probability; two tokens: the difference of their logits;
    - a number: the log-probability of that token of an answer, counted from 0;
    - "embedding" or "hidden": the embedding, or all last hidden vectors;
    - of a model without predictions a text: the cosine similarity of the embeddings.
    """
    found = _Finder(model, batch, answer)
    if isinstance(target, tuple):
        return found.difference(*target)
    if isinstance(target, int):
        return found.step(target)
    if target in ("embedding", "hidden"):
        return found.vectors(target)
    if target in (None, "output"):
        return found.everything()
    return found.prediction() if target == "next" else found.token(target)


class _Finder:
    """The output of one text, and what of it a target names."""

    def __init__(self, model: LoadedModel, batch: Batch, answer: Answer | None) -> None:
        self._model, self._batch, self._answer = model, batch, answer
        result = run_once(model, batch)
        logits = getattr(result, "logits", None)
        self._logits = logits[0].float() if isinstance(logits, Tensor) else None
        self._states = getattr(result, "last_hidden_state", None)
        if self._logits is None and not isinstance(self._states, Tensor):
            raise UnsupportedModelError(
                f"expected a model with logits or a last hidden state, got one that returns {type(result).__name__}."
            )

    @property
    def _predicts_tokens(self) -> bool:
        return self._logits is not None and self._logits.ndim == 2

    def everything(self) -> Objective:
        """All that the model predicts."""
        if self._logits is None:
            return self.vectors("embedding")
        if not self._predicts_tokens:
            if len(self._logits) == 1:
                return Objective("number", "the output", "units of the output", lambda result, _: precise(result.logits)[:, 0])
            name, probability = self._class(int(self._logits.argmax()))
            return Objective(
                "distributions", "the probabilities of the classes", "nats",
                lambda result, _: precise(result.logits)[:, None], name, probability,
            )  # fmt: skip
        if self._answer is not None:
            positions, title = tuple(self._answer.positions), "the answer"
        else:
            positions, title = tuple(range(len(self._logits))), "the predictions at all positions"
        token, probability = self._most_probable(positions[-1])
        read, options = self._reads(positions)
        return Objective(
            "distributions", title, "nats", read, self._decoded(token), probability,
            positions, options,
        )  # fmt: skip

    def prediction(self) -> Objective:
        """The most probable next token, or class."""
        if self._logits is None:
            raise self._no_head("next")
        if not self._predicts_tokens:
            return self._of_class(int(self._logits.argmax()))
        position = self._place()
        return self._of_token(position, int(self._logits[position].argmax()))

    def token(self, name: str) -> Objective:
        """A token or a class by its name; of a model without predictions, the similarity with a text."""
        if self._logits is None:
            return self._similarity(name)
        if self._predicts_tokens:
            return self._of_token(self._place(), self._id(name))
        labels = {str(label): index for index, label in (getattr(self._model.network.config, "id2label", None) or {}).items()}
        if name in labels:
            return self._of_class(labels[name])
        raise InputError(f"expected one of the classes {', '.join(labels)} as target, got {name!r}.")

    def difference(self, name: str, other: str) -> Objective:
        """Why this token and not another."""
        if not self._predicts_tokens:
            raise self._no_head(f"{name} against {other}")
        position, tokens = self._place(), [self._id(name), self._id(other)]
        read, options = self._reads((position,))
        title = f"the logit of {self._decoded(tokens[0])!r} minus that of {self._decoded(tokens[1])!r}"

        def outputs(result: Any, first: int) -> Tensor:
            logits = read(result, first)[:, 0]
            return logits[:, tokens[0]] - logits[:, tokens[1]]

        probability = self._probability(position, tokens[0])
        name, whole = self._decoded(tokens[0]), self._distribution(position)
        return Objective("number", title, "logits", outputs, name, probability, (position,), options, whole)

    def step(self, number: int) -> Objective:
        """A generated token."""
        if self._answer is None:
            raise InputError(f"expected an answer of the model for the target {number}, its token of that number, got a text.")
        positions = self._answer.positions
        if not 0 <= number < len(positions):
            raise InputError(f"expected a token of the answer from 0 to {len(positions) - 1} as target, got {number}.")
        return self._of_token(positions[number], self._answer.tokens.ids[self._answer.start + number])

    def vectors(self, target: str) -> Objective:
        """The embedding, or all last hidden vectors."""
        if self._states is None:
            raise InputError(
                f"expected a model without a head for the target {target!r}, got {type(self._model.network).__name__}; use "
                "its base model, or another target."
            )
        if target == "hidden":
            return Objective("vectors", "the last hidden vectors", "1 - cos", lambda result, _: precise(result.last_hidden_state))
        return Objective("vectors", "the embedding", "1 - cos", lambda result, _: embedding_of_result(result))

    def _similarity(self, text: str) -> Objective:
        other = self._model.encode(text, None, False)  # pyright: ignore[reportAttributeAccessIssue]
        direction = torch.nn.functional.normalize(embedding_of_result(run_once(self._model, other))[0, 0], dim=0)
        shown = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"

        def outputs(result: Any, _: int) -> Tensor:
            return torch.nn.functional.normalize(embedding_of_result(result)[:, 0], dim=-1) @ direction

        return Objective("number", f"the similarity with {shown!r}", "cos", outputs)

    def _of_class(self, index: int) -> Objective:
        name, probability = self._class(index)
        title = f"the log-probability of class {name}"
        return Objective(
            "number", title, "nats", lambda result, _: precise(result.logits).log_softmax(-1)[:, index], name, probability,
            whole=self.everything(),
        )  # fmt: skip

    def _of_token(self, position: int, token: int) -> Objective:
        read, options = self._reads((position,))
        name, probability = self._decoded(token), self._probability(position, token)

        def outputs(result: Any, first: int) -> Tensor:
            return read(result, first)[:, 0].log_softmax(-1)[:, token]

        title, whole = f"the log-probability of {name!r}", self._distribution(position)
        return Objective("number", title, "nats", outputs, name, probability, (position,), options, whole)

    def _distribution(self, position: int) -> Objective:
        read, options = self._reads((position,))
        return Objective("distributions", "the prediction", "nats", read, positions=(position,), options=options)

    def _place(self) -> int:
        """The position whose prediction is meant: of the token that is masked, of the first token of an answer, or the last."""
        if self._answer is not None:
            return self._answer.positions[0]
        tokens = self._batch.decoder[0] if self._batch.decoder else self._batch.encoder[0]
        mask = getattr(self._model.tokenizer, "mask_token_id", None)
        return tokens.ids.index(mask) if mask is not None and mask in tokens.ids else len(tokens) - 1

    def _reads(self, positions: Sequence[int]) -> tuple[Callable[[Any, int], Tensor], tuple[tuple[str, Any], ...]]:
        """How to read logits at these positions, and options that compute no others."""
        assert self._logits is not None
        length = len(self._logits)
        fewest = length - min(positions)
        keeps = "logits_to_keep" in inspect.signature(type(self._model.network).forward).parameters

        def read(result: Any, first: int) -> Tensor:
            return precise(result.logits)[:, [position - length for position in positions if position >= first]]

        return read, (("logits_to_keep", fewest),) if keeps else ()

    def _class(self, index: int) -> tuple[str, float]:
        assert self._logits is not None
        labels = getattr(self._model.network.config, "id2label", None) or {}
        return str(labels.get(index, index)), float(self._logits.softmax(-1)[index])

    def _most_probable(self, position: int) -> tuple[int, float]:
        assert self._logits is not None
        token = int(self._logits[position].argmax())
        return token, self._probability(position, token)

    def _probability(self, position: int, token: int) -> float:
        assert self._logits is not None
        return float(self._logits[position].softmax(-1)[token])

    def _decoded(self, token: int) -> str:
        return self._model.tokenizer.decode([token])

    def _id(self, name: str) -> int:
        """The id of a token that is written so, with or without a space before it."""
        tokenizer = self._model.tokenizer
        spellings = [tokenizer.encode(text, add_special_tokens=False) for text in (f" {name}", name)]
        for ids in spellings:
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
                return ids[0]
        words = {tokenizer.convert_tokens_to_string([token]).strip(): None for token in tokenizer.get_vocab()}
        near = get_close_matches(name, words, 1, 0.0)
        parts = " ".join(repr(tokenizer.decode([token])) for token in spellings[-1])
        raise InputError(
            f"expected a target that is one token, got {name!r}, which is {parts}; the nearest token is {near[0]!r}."
        )

    def _no_head(self, target: str) -> InputError:
        return InputError(
            f"expected a model that predicts tokens or classes for the target {target!r}, got "
            f"{type(self._model.network).__name__}; use a model with a head, or another target."
        )


def precise(tensor: Tensor) -> Tensor:
    """In at least float32: the effect of a single weight is below one step of a half-precision logit."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


SHOWN = 40
"""Characters of a text that a title shows."""


def embedding_of_result(result: Any) -> Float[Tensor, "copy 1 width"]:
    """The mean of the last hidden vectors, which sentence encoders use as embedding."""
    return precise(result.last_hidden_state).mean(1, keepdim=True)


def run_once(model: LoadedModel, batch: Batch) -> Any:
    """The result of a network in float32."""
    with torch.no_grad():
        return model.forward(in_float32(replica_of(model.network)), batch.inputs)
