"""Encode images and audio as the tensors that a model takes; their positions are patches and frames."""

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.encoding.text import Batch, encode_side
from identiformer.models.library_output import quiet_transformers
from identiformer.models.offloaded import device_of
from identiformer.tokens import Tokens

MEL_BINS = ("num_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim")
"""Names that configurations use for the height of a spectrogram."""
USUAL_MEL_BINS = (128, 80, 160, 320)
USUAL_IMAGE_SIZES = (32, (48, 320), 224, 640)


def takes_images(network: Any) -> bool:
    """Whether a network reads pixels."""
    return getattr(network, "main_input_name", "") == "pixel_values"


def takes_audio(network: Any) -> bool:
    """Whether a network reads audio: samples, or features such as a spectrogram."""
    return getattr(network, "main_input_name", "") in ("input_features", "input_values")


def encode_image(image: Any, processor: Any, network: Any) -> Batch:
    """Encode pixels (channel height width), or an image from which the model's processor makes pixels."""
    family = network.config.model_type
    if hasattr(network.config, "num_frames"):
        raise UnsupportedModelError(
            f"the {family} family reads videos, whose positions are patches of several images; use a model of single images, "
            "such as ViT or DINOv2."
        )
    image = pixels_of(image, processor)
    pixels = image[None].to(device_of(network), network.dtype)
    size = getattr(network.config, "patch_size", None)
    with torch.no_grad():
        states = getattr(network(pixel_values=pixels), "last_hidden_state", None)
    if size is None or states is None or states.ndim != 3:
        raise UnsupportedModelError(
            f"the {family} family does not read an image as a sequence of patches with one position each; use one that does, "
            "such as ViT or DINOv2."
        )
    positions = states.shape[1]
    height, width = (size, size) if isinstance(size, int) else size
    rows, columns = image.shape[1] // height, image.shape[2] // width
    extra = positions - rows * columns
    if extra < 0:
        raise InputError(f"expected a position for each of {rows * columns} patches, but the model has {positions}.")
    names = ("[CLS]", "[DIST]", *(f"[{number}]" for number in range(2, extra)))[:extra]
    patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    tokens = _tokens((*names, *patches), special=extra)
    return Batch({"pixel_values": pixels}, [tokens], None, [f"image sha256:{_digest(image)}"], None)


def pixels_of(image: Any, processor: Any) -> Tensor:
    """Pixels (channel height width) as they are, or those that a processor makes of an image."""
    if not isinstance(image, Tensor):
        if isinstance(image, str) or processor is None:
            raise InputError(
                f"expected pixels, a tensor (channel height width), or an image and the model's image processor, got "
                f"{type(image).__name__}; load the model with its processor: load(model, processor)."
            )
        image = processor(images=image, return_tensors="pt")["pixel_values"][0]
    if image.ndim != 3:
        raise InputError(f"expected the pixels of one image (channel height width), got a tensor of shape {tuple(image.shape)}.")
    return image


def encode_audio(audio: Any, pair: str | None, tokenizer: Any, network: Any, truncate: bool) -> Batch:
    """Encode audio, a tensor from the model's feature extractor without batch axis; a decoder reads the second text."""
    if not isinstance(audio, Tensor):
        raise InputError(
            f"expected audio as the tensor that the model's feature extractor returns, without a batch axis, got "
            f"{type(audio).__name__}."
        )
    if pair is not None and tokenizer is None:
        raise InputError("expected a tokenizer for the text that the decoder reads; call load(model, tokenizer).")
    inputs = {network.main_input_name: audio[None].to(device_of(network), network.dtype)}
    encoder = network.get_encoder() if network.config.is_encoder_decoder else network
    with torch.no_grad():
        states = getattr(encoder(**inputs), "last_hidden_state", None)
    if states is None:
        raise UnsupportedModelError(
            f"the {network.config.model_type} family returns no hidden vectors of its frames; load its encoder alone."
        )
    tokens = _tokens(tuple(f"frame {number}" for number in range(states.shape[1])))
    decoder = None
    if pair is not None:
        decoder_inputs, decoder = encode_side(tokenizer, [pair], None, None, truncate)
        inputs |= {f"decoder_{name}": decoder_inputs[name] for name in ("input_ids", "attention_mask")}
    # Results are named by this word, so it stays "sound" in the hashed source.
    return Batch(inputs, [tokens], decoder, [f"sound sha256:{_digest(audio)}"], None if pair is None else [pair])


def _tokens(texts: tuple[str, ...], special: int = 0) -> Tokens:
    """One token per position, the first ones special."""
    count = len(texts)
    return Tokens(texts, tuple(range(count)), (True,) * special + (False,) * (count - special), (0,) * count)


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).hexdigest()


def random_audio(model: PreTrainedModel) -> Tensor:
    """Random audio of the first shape on which a model runs; configurations do not always state the shape."""
    return _first_accepted(model, list(_audio_shapes(model)))


def random_image(model: PreTrainedModel) -> Tensor:
    """A random image of the first shape on which a model runs."""
    named = (getattr(config, "image_size", None) for config in _configs(model.config))
    sizes = [size for size in (*named, *USUAL_IMAGE_SIZES) if size]
    channels = getattr(model.config, "num_channels", 3)
    return _first_accepted(model, [(channels, *((size, size) if isinstance(size, int) else size)) for size in sizes])


def _first_accepted(model: PreTrainedModel, shapes: list[tuple[int, ...]]) -> Tensor:
    return next((tensor for tensor in map(torch.randn, shapes) if _runs(model, tensor)), torch.randn(shapes[0]))


def _audio_shapes(model: PreTrainedModel) -> Iterator[tuple[int, ...]]:
    config = model.config
    if model.main_input_name == "input_values":
        if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
            yield config.max_length, config.num_mel_bins
        yield (4000,)
        yield (3840,)
        yield getattr(config, "audio_channels", 1), 16000
    named = (getattr(part, name) for part in _configs(config) for name in MEL_BINS if hasattr(part, name))
    frames = 2 * getattr(config, "max_source_positions", 32)
    for bins in (*named, *USUAL_MEL_BINS):
        yield bins, frames
        yield frames, bins
        yield 1, frames, bins


def _runs(model: PreTrainedModel, tensor: Tensor) -> bool:
    """Whether a model, or the encoder of an encoder-decoder, accepts this input."""
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    try:
        with quiet_transformers(), torch.no_grad():
            encoder(**{model.main_input_name: tensor[None]})
    except Exception:
        return False
    return True


def _configs(config: PreTrainedConfig) -> list[PreTrainedConfig]:
    """A configuration and the configurations nested in it."""
    return [config, *(part for name in config.sub_configs if (part := getattr(config, name, None)) is not None)]
