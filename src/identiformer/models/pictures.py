"""Pictures: read from a file, as the pixels that a vision model takes, and as the patches that it attends to."""

import io
import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from identiformer.errors import InputError
from identiformer.files import read_file
from identiformer.models.encoding.image_audio import pixels_of, takes_images
from identiformer.models.loaded import LoadedModel
from identiformer.models.loading.checks import no_reader_of_images
from identiformer.tokens import Tokens

MOST_BYTES, MOST_PIXELS = 2**28, 2**28 // 3
"""Of a picture's file, and of the picture, whose pixels then take 256 MiB."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Pillow reads others too, whatever a file is called, and for some of them starts programs, such as Ghostscript."""


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


def open_picture(model: LoadedModel, path: str | os.PathLike[str]) -> Picture:
    """Read an image file as a vision model sees it.

    Parameters
    ----------
    model : Model
        A vision model, loaded with its image processor.
    path : path
        A PNG, JPEG, WebP, GIF, BMP or TIFF file of at most 2^28 bytes and 2^28 / 3 pixels; of several frames, the first is read.

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
        raise no_reader_of_images(model.name)
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
    too_large = InputError(f"expected an image of at most {MOST_PIXELS} pixels, got more in {path.name}; make it smaller.")
    try:
        content = io.BytesIO(read_file(path, MOST_BYTES))
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(content, formats=FORMATS)  # only the header
            if math.prod(image.size) > MOST_PIXELS:
                raise too_large
            return ImageOps.exif_transpose(image).convert("RGB")
    except InputError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise too_large from None
    except Exception as error:  # Pillow raises anything when it decodes a damaged file
        if isinstance(error, OSError) and not isinstance(error, UnidentifiedImageError):
            reason = error.strerror or "part of it is missing"
            raise InputError(f"expected an image, but {path} cannot be read ({reason}); check the path.") from None
        kinds = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise InputError(f"expected an image in {kinds}, got {path.name}, which is something else; convert it.") from None


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
