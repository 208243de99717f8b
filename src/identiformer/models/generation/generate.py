"""Let a language model write, greedily or by sampling, and keep what it wrote also when it is interrupted."""

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.generation.streamers import BaseStreamer

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.encoding.text import check_range, readable_tokens
from identiformer.models.generation.answer import Answer, batch_of
from identiformer.models.generation.prompts import Messages, Spans, encode_prompt, prompt_tokens, render
from identiformer.models.library_output import model_errors, quiet_transformers
from identiformer.models.offloaded import device_of
from identiformer.models.replica import replica_of
from identiformer.options import check_seed
from identiformer.tokens import Tokens

if TYPE_CHECKING:
    from identiformer.models.model import Model


def generate(
    model: "Model",
    prompt: str | Messages,
    *,
    chat: bool,
    system: str | None,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    num_beams: int,
    spans: Spans | None,
) -> Answer:
    """The answer of a language model; see `Model.generate`."""
    _check(model, max_new_tokens, temperature, num_beams)
    check_seed(seed)
    chat = chat or not isinstance(prompt, str)
    text, said = render(model.tokenizer, prompt, system, chat)
    before = prompt_tokens(model.tokenizer, text, {**said, **(spans or {})}, chat)
    check_range(model.backbone, model.tokenizer, [before.ids])
    if model.positions is not None and len(before) + max_new_tokens > model.positions:
        raise InputError(
            f"expected a prompt and an answer of at most {model.positions} tokens, which is all the model takes, got a prompt of "
            f"{len(before)} and an answer of up to {max_new_tokens}; shorten the prompt, or lower max_new_tokens."
        )
    new, interrupted = _write(model, before, max_new_tokens, temperature, seed)
    written = model.tokenizer.decode(new, skip_special_tokens=True)
    tokens = _joined(model.tokenizer, before, new, text, "assistant" if chat else "answer", chat)
    probabilities = _probabilities(model, tokens, len(before))
    return Answer(model, text, written, tokens, len(before), probabilities, interrupted)


def require_language_model(model: "Model") -> None:
    """Raise UnsupportedModelError if a model cannot write."""
    if not model.network.can_generate() or model.network.config.is_encoder_decoder:
        raise UnsupportedModelError(
            f"expected a causal language model with its head, got {type(model.network).__name__}; load one, such as smollm2."
        )


def _check(model: "Model", max_new_tokens: int, temperature: float, num_beams: int) -> None:
    require_language_model(model)
    if num_beams != 1:
        raise InputError(
            f"expected one beam, got {num_beams}: the answer of a beam search is not written token by token in one pass; sample "
            "with temperature= instead."
        )
    if max_new_tokens < 1:
        raise InputError(f"expected at least 1 new token, got {max_new_tokens}.")
    if not 0 <= temperature < float("inf"):
        raise InputError(f"expected a temperature of 0, which is greedy, or above, got {temperature}.")


class _Kept(BaseStreamer):
    """Keeps each token as it is written."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._prompt = True

    def put(self, value: Tensor) -> None:
        if not self._prompt:
            self.ids.extend(value.flatten().tolist())
        self._prompt = False

    def end(self) -> None:
        pass


def _write(model: "Model", before: Tokens, max_new_tokens: int, temperature: float, seed: int) -> tuple[list[int], bool]:
    """The ids of the tokens that the model writes, and whether it was interrupted."""
    kept, interrupted = _Kept(), True
    inputs = {name: tensor.to(device_of(model.network)) for name, tensor in batch_of(before, "").inputs.items()}
    options: dict[str, Any] = {"do_sample": temperature > 0, "max_new_tokens": max_new_tokens, "num_beams": 1}
    if temperature > 0:
        options |= {"temperature": temperature, "top_k": 0, "top_p": 1.0}
    with (
        model_errors(f"{model.name} cannot write an answer"),
        quiet_transformers(),
        torch.random.fork_rng(devices=()),
        torch.no_grad(),
    ):
        torch.manual_seed(seed)
        with suppress(KeyboardInterrupt):
            replica_of(model.network).generate(**inputs, **options, streamer=kept)
            interrupted = False
    if not kept.ids:
        raise KeyboardInterrupt
    return kept.ids, interrupted


def _joined(tokenizer: Any, before: Tokens, new: list[int], prompt: str, role: str, chat: bool) -> Tokens:
    """The tokens of prompt and answer; their words and characters are known if the tokenizer makes the same of the text."""
    ids = (*before.ids, *new)
    special = tuple(token in tokenizer.all_special_ids for token in new)
    closing = len(new) - len(special[: max((index for index, flag in enumerate(special) if not flag), default=-1) + 1])
    written = tokenizer.decode(new[: len(new) - closing])
    whole = encode_prompt(tokenizer, prompt + written, chat)
    end = len(prompt) + len(written)
    same = whole.ids == ids[: len(ids) - closing]
    return Tokens(
        texts=(*before.texts, *readable_tokens(tokenizer, new)),
        ids=ids,
        special=(*before.special, *special),
        segments=(0,) * len(ids),
        word_ids=(*whole.word_ids, *[None] * closing) if same and whole.word_ids is not None else None,
        spans=(*whole.spans, *[(end, end)] * closing) if same and whole.spans is not None else None,
        span_names=(*(before.span_names or ()), *[role] * len(new)),
    )


def _probabilities(model: "Model", tokens: Tokens, start: int) -> tuple[float, ...]:
    """The probability of each token of the answer, from one forward pass over prompt and answer."""
    count = len(tokens) - start
    replica = replica_of(model.network)
    # Logits of a long prompt would take gigabytes.
    last = {"logits_to_keep": count + 1} if "logits_to_keep" in inspect.signature(replica.forward).parameters else {}
    with torch.no_grad():
        logits = model.forward(replica, batch_of(tokens, "").inputs, **last).logits[0, -count - 1 : -1]
    chosen = torch.tensor(tokens.ids[start:], device=logits.device)
    return tuple(logits.double().softmax(-1).gather(-1, chosen[:, None])[:, 0].tolist())
