"""Pictures: read from a file, as the pixels that a vision model takes, and as the patches that it attends to."""

import io
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from identiformer.errors import InputError
from identiformer.files import read_file
from identiformer.models.encoding.image_audio import pixels_of, takes_images
from identiformer.tokens import Tokens

if TYPE_CHECKING:
    from identiformer.models.model import Model

MOST_BYTES = 2**28
"""Of a picture's file."""


@dataclass(frozen=True, eq=False)
class Picture:
    """One image as a vision model reads it: resized and cropped by its processor.

    Parameters
    ----------
    pixels : float tensor (channel height width)
        The input of the model, for `Model.trace` and `Model.rerun`.
    colors : uint8 array (height width channel)
        The same pixels in red, green and blue.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("google/vit-base-patch16-224")  # doctest: +SKIP
    >>> picture = idf.open_picture(model, "cat.jpg")  # doctest: +SKIP
    >>> model.trace(picture.pixels).tokens[:3]  # doctest: +SKIP
    ('[CLS]', '0,0', '0,1')
    """

    pixels: Float[Tensor, "channel height width"]
    colors: UInt8[np.ndarray, "height width 3"]


def open_picture(model: "Model", path: str | os.PathLike[str]) -> Picture:
    """Read an image file as a vision model sees it.

    Parameters
    ----------
    model : Model
        A vision model, loaded with its image processor.
    path : path
        A PNG, JPEG or other file that Pillow reads.

    Returns
    -------
    Picture
        Its `pixels` for the model, and its `colors` to draw.

    Examples
    --------
    >>> import identiformer as idf
    >>> idf.open_picture(idf.load("minilm"), "cat.jpg")
    Traceback (most recent call last):
    identiformer.errors.InputError: expected a model that reads images, got minilm; load a vision model, such as a ViT.
    """
    if not takes_images(model.network):
        raise InputError(f"expected a model that reads images, got {model.name}; load a vision model, such as a ViT.")
    if model.tokenizer is None:
        raise InputError(
            f"expected the image processor of {model.name} (preprocessor_config.json) among its files, got none; copy it there, "
            "or pass one: load(model, processor)."
        )
    pixels = pixels_of(_read(Path(path)), model.tokenizer)
    return Picture(pixels, _colors(pixels, model.tokenizer))


def patch_grid(tokens: Tokens) -> tuple[int, int, int] | None:
    """Rows and columns of an image's patches, and the position of the first; None for a text.

    >>> patch_grid(Tokens(("[CLS]", "0,0", "0,1"), (0, 1, 2), (True, False, False), (0, 0, 0)))
    (1, 2, 1)
    """
    first = next((position for position, special in enumerate(tokens.special) if not special), len(tokens))
    if first == len(tokens) or tokens.texts[first] != "0,0":
        return None
    rows, columns = (int(number) + 1 for number in tokens.texts[-1].split(","))
    return rows, columns, first


def _read(path: Path) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(read_file(path, MOST_BYTES)))
            return ImageOps.exif_transpose(image).convert("RGB")
    except (UnidentifiedImageError, SyntaxError, ValueError):
        raise InputError(f"expected an image such as PNG or JPEG, got {path.name}, which is something else.") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise InputError(f"expected an image of at most {Image.MAX_IMAGE_PIXELS} pixels, got more in {path.name}.") from None
    except OSError as error:
        reason = error.strerror or "part of it is missing"
        raise InputError(f"expected an image, but {path} cannot be read ({reason}); check the path.") from None


def _colors(pixels: Float[Tensor, "channel height width"], processor: Any) -> UInt8[np.ndarray, "height width 3"]:
    """Undo the processor's normalization; where it is unknown, stretch the pixels from black to white."""
    mean, deviation = (getattr(processor, f"image_{name}", None) for name in ("mean", "std"))
    colors = pixels.double()
    if getattr(processor, "do_normalize", False) and mean is not None and deviation is not None:
        colors = colors * torch.tensor(deviation)[:, None, None] + torch.tensor(mean)[:, None, None]
    elif float(colors.min()) < 0 or float(colors.max()) > 1:
        colors = (colors - colors.min()) / (colors.max() - colors.min())
    colors = colors.expand(3, -1, -1) if len(colors) == 1 else colors[:3]
    return (255 * colors.clamp(0, 1)).round().byte().permute(1, 2, 0).contiguous().numpy()
