"""Random images and audio in a shape that a model accepts."""

from collections.abc import Iterator

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from identiformer.models.library_output import quiet_transformers

BINS = ("num_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim")
"""Names that configurations use for the height of a spectrogram."""
USUAL_BINS = (128, 80, 160, 320)
USUAL_SIZES = (32, (48, 320), 224, 640)


def random_audio(model: PreTrainedModel) -> torch.Tensor:
    """Random audio of the first shape on which a model runs; configurations do not always state the shape."""
    shapes = list(_audio_shapes(model))
    return next((audio for audio in map(torch.randn, shapes) if _runs(model, audio)), torch.randn(shapes[0]))


def _audio_shapes(model: PreTrainedModel) -> Iterator[tuple[int, ...]]:
    config = model.config
    if model.main_input_name == "input_values":
        if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
            yield config.max_length, config.num_mel_bins
        yield (4000,)
        yield (3840,)
        yield getattr(config, "audio_channels", 1), 16000
    named = (getattr(each, name) for each in _configs(config) for name in BINS if hasattr(each, name))
    frames = 2 * getattr(config, "max_source_positions", 32)
    for bins in (*named, *USUAL_BINS):
        yield bins, frames
        yield frames, bins
        yield 1, frames, bins


def _runs(model: PreTrainedModel, inputs: torch.Tensor) -> bool:
    """Whether a model, or the encoder of an encoder-decoder, accepts this input."""
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    try:
        with quiet_transformers(), torch.no_grad():
            encoder(**{model.main_input_name: inputs[None]})
    except Exception:
        return False
    return True


def random_image(model: PreTrainedModel) -> torch.Tensor:
    """A random image of the first shape on which a model runs."""
    named = (getattr(each, "image_size", None) for each in _configs(model.config))
    sizes = [size for size in (*named, *USUAL_SIZES) if size]
    channels = getattr(model.config, "num_channels", 3)
    shapes = [(channels, *((size, size) if isinstance(size, int) else size)) for size in sizes]
    return next((image for image in map(torch.randn, shapes) if _runs(model, image)), torch.randn(shapes[0]))


def _configs(config: PreTrainedConfig) -> list[PreTrainedConfig]:
    """A configuration and the configurations nested in it."""
    return [config, *(each for name in config.sub_configs if (each := getattr(config, name, None)) is not None)]
