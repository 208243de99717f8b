"""From an image to the tensor that a vision model takes, its patches named by row and column."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.encoding.text import Batch
from identiformer.trace import Tokens


def takes_images(network: Any) -> bool:
    """Whether a network reads pixels."""
    return getattr(network, "main_input_name", "") == "pixel_values"


def encode_image(image: Any, processor: Any, network: Any) -> Batch:
    """Pixels (channel height width) as they are, or an image as the model's own processor makes pixels of it."""
    if hasattr(network.config, "num_frames"):
        raise UnsupportedModelError(
            f"the {network.config.model_type} family reads videos, whose positions are patches of several pictures; use a model "
            "of single images, such as ViT or DINOv2."
        )
    if not isinstance(image, Tensor):
        if isinstance(image, str) or processor is None:
            raise InputError(
                f"expected pixels, a tensor (channel height width), or an image and the model's image processor, got "
                f"{type(image).__name__}; load the model with its processor: load(model, processor)."
            )
        image = processor(images=image, return_tensors="pt")["pixel_values"][0]
    if image.ndim != 3:
        raise InputError(f"expected the pixels of one image (channel height width), got a tensor of shape {tuple(image.shape)}.")
    pixels = image[None].to(network.device, network.dtype)
    size = getattr(network.config, "patch_size", None)
    with torch.no_grad():
        states = getattr(network(pixel_values=pixels), "last_hidden_state", None)
    if size is None or states is None or states.ndim != 3:
        raise UnsupportedModelError(
            f"the {network.config.model_type} family does not read an image as a row of patches, one position each; use one that "
            "does, such as ViT or DINOv2."
        )
    positions = states.shape[1]
    high, wide = (size, size) if isinstance(size, int) else size
    rows, columns = image.shape[1] // high, image.shape[2] // wide
    extra = positions - rows * columns
    if extra < 0:
        raise InputError(f"expected a position for each of {rows * columns} patches, but the model has {positions}.")
    names = [*(("[CLS]", "[DIST]", *(f"[{number}]" for number in range(2, extra)))[:extra])]
    patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    tokens = Tokens(
        texts=(*names, *patches),
        ids=tuple(range(positions)),
        special=(True,) * extra + (False,) * len(patches),
        segments=(0,) * positions,
    )
    digest = hashlib.sha256(image.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
    return Batch({"pixel_values": pixels}, [tokens], None, [f"image sha256:{digest}"], None)
