"""From a sound to the tensor that a model of sounds takes; its positions are the frames that the encoder makes of it."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.encoding.text import Batch, encode_side
from identiformer.trace import Tokens

SOUND_INPUTS = ("input_features", "input_values")


def takes_sounds(network: Any) -> bool:
    """Whether a network reads a sound: its samples, or features such as a spectrogram."""
    return getattr(network, "main_input_name", "") in SOUND_INPUTS


def encode_sound(sound: Any, pair: str | None, processor: Any, network: Any, truncate: bool) -> Batch:
    """A sound as the model takes it, without a batch axis; the second text is what a decoder reads."""
    if not isinstance(sound, Tensor):
        raise InputError(
            f"expected a sound as the tensor that the model's feature extractor makes of it, without a batch axis, got "
            f"{type(sound).__name__}."
        )
    if pair is not None and processor is None:
        raise InputError("expected a tokenizer for the text that the decoder reads; call load(model, tokenizer).")
    given = sound[None].to(network.device, network.dtype)
    encoder = network.get_encoder() if network.config.is_encoder_decoder else network
    with torch.no_grad():
        states = getattr(encoder(**{network.main_input_name: given}), "last_hidden_state", None)
    if states is None:
        raise UnsupportedModelError(
            f"the {network.config.model_type} family gives no hidden vectors of its frames; load the encoder within it alone."
        )
    frames = states.shape[1]
    tokens = Tokens(
        texts=tuple(f"frame {number}" for number in range(frames)),
        ids=tuple(range(frames)),
        special=(False,) * frames,
        segments=(0,) * frames,
    )
    inputs, decoder = {network.main_input_name: given}, None
    if pair is not None:
        written, decoder = encode_side(processor, [pair], None, None, truncate)
        inputs |= {"decoder_input_ids": written["input_ids"], "decoder_attention_mask": written["attention_mask"]}
    digest = hashlib.sha256(sound.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
    return Batch(inputs, [tokens], decoder, [f"sound sha256:{digest}"], None if pair is None else [pair])
