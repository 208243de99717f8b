"""Let a language model write, greedily or by sampling, and on request keep what it wrote until it was interrupted."""

import inspect
import warnings
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.streamers import BaseStreamer

from identiformer.errors import InputError, ModelWarning
from identiformer.models.encoding.text import check_range, readable_tokens
from identiformer.models.generation.answer import Answer, batch_of
from identiformer.models.generation.chat_template import Messages
from identiformer.models.generation.decoding import decoding
from identiformer.models.generation.prompts import Prompt, Spans, encode_prompt, notes_of, prompt_tokens, render
from identiformer.models.generation.settings import Generation
from identiformer.models.library_output import model_errors, quiet_transformers
from identiformer.models.loaded import LoadedModel
from identiformer.models.loading.checks import not_a_writer
from identiformer.models.offloaded import device_of
from identiformer.models.replica import replica_of
from identiformer.options import check_generation_config, check_new_tokens, check_seed, check_temperature
from identiformer.tokens import Tokens


def generate(
    model: LoadedModel,
    messages: str | Messages,
    *,
    chat: bool,
    system: str | None,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    num_beams: int,
    generation_config: str | None,
    spans: Spans | None,
    keep_partial: bool,
) -> Answer:
    """The answer of a language model; see `Model.generate`."""
    require_language_model(model)
    if num_beams != 1:
        raise InputError(
            f"expected one beam, got {num_beams}: the answer of a beam search is not written token by token in one pass; sample "
            "with temperature= instead."
        )
    check_new_tokens(max_new_tokens)
    check_temperature(temperature)
    check_seed(seed)
    check_generation_config(generation_config)
    prompt = render(model.tokenizer, messages, system, chat or not isinstance(messages, str))
    before = prompt_tokens(model.tokenizer, prompt, spans or {})
    check_range(model.backbone, model.tokenizer, [before.ids])
    if model.positions is not None and len(before) + max_new_tokens > model.positions:
        raise InputError(
            f"expected a prompt and an answer of at most {model.positions} tokens, which is all the model takes, got a prompt of "
            f"{len(before)} and an answer of up to {max_new_tokens}; shorten the prompt, or lower max_new_tokens."
        )
    notes = notes_of(model.tokenizer, prompt)
    for note in notes:
        warnings.warn(note, ModelWarning, stacklevel=3)
    with model_errors(f"{model.name} cannot write an answer"), quiet_transformers():
        config, settings = decoding(model.network, generation_config, max_new_tokens, temperature, seed)
        new, interrupted = _write(model, before, config, seed, keep_partial)
    written = model.tokenizer.decode(new, skip_special_tokens=True)
    tokens = _joined(model.tokenizer, before, new, prompt, "assistant" if prompt.chat else "answer")
    probabilities = _probabilities(model, tokens, len(before))
    return Answer(model, prompt.text, written, tokens, len(before), probabilities, interrupted, settings, notes)


def require_answers(model: LoadedModel, generation: Generation) -> None:
    """Raise, with the reason, if a model cannot write answers with these settings to any text."""
    require_language_model(model)
    render(model.tokenizer, "Hello.", generation.system, generation.chat)


def require_language_model(model: LoadedModel) -> None:
    """Raise UnsupportedModelError if a model cannot write."""
    if not model.network.can_generate() or model.network.config.is_encoder_decoder:
        raise not_a_writer(type(model.network).__name__)


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


def _write(model: LoadedModel, before: Tokens, config: GenerationConfig, seed: int, keep_partial: bool) -> tuple[list[int], bool]:
    """The ids of the tokens that the model writes, and whether it was interrupted."""
    kept, interrupted, replica = _Kept(), False, replica_of(model.network)
    inputs = {name: tensor.to(device_of(model.network)) for name, tensor in batch_of(before, "").inputs.items()}
    replica.generation_config = config  # transformers takes from it what the configuration of a call does not set
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        try:
            replica.generate(**inputs, generation_config=config, tokenizer=model.tokenizer, streamer=kept)
        except KeyboardInterrupt:
            if not (keep_partial and kept.ids):
                raise
            interrupted = True
    return kept.ids, interrupted


def _joined(tokenizer: Any, before: Tokens, new: list[int], prompt: Prompt, role: str) -> Tokens:
    """The tokens of prompt and answer; their words and characters are known if the tokenizer makes the same of the text."""
    ids = (*before.ids, *new)
    special = tuple(token in tokenizer.all_special_ids for token in new)
    closing = len(new) - len(special[: max((index for index, flag in enumerate(special) if not flag), default=-1) + 1])
    written = tokenizer.decode(new[: len(new) - closing])
    whole = encode_prompt(tokenizer, prompt.text + written, prompt.chat)
    end = len(prompt.text) + len(written)
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


def _probabilities(model: LoadedModel, tokens: Tokens, start: int) -> tuple[float, ...]:
    """The probability of each token of the answer, from one forward pass over prompt and answer."""
    count = len(tokens) - start
    replica = replica_of(model.network)
    # Logits of a long prompt would take gigabytes.
    last = {"logits_to_keep": count + 1} if "logits_to_keep" in inspect.signature(replica.forward).parameters else {}
    with torch.no_grad():
        logits = model.forward(replica, batch_of(tokens, "").inputs, **last).logits[0, -count - 1 : -1]
    chosen = torch.tensor(tokens.ids[start:], device=logits.device)
    return tuple(logits.double().softmax(-1).gather(-1, chosen[:, None])[:, 0].tolist())
