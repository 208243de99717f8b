"""The picture that a vision model reads, as the page shows it under the weights of a row."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from identiformer.models.pictures import Picture, patch_grid
from identiformer.tokens import Tokens


def image_panel(picture: Picture, tokens: Tokens) -> dict[str, Any] | None:
    """The picture in the page itself, and where its patches are; None if positions are not patches."""
    grid = patch_grid(tokens)
    if grid is None:
        return None
    rows, columns, first = grid
    return {"picture": _data_address(picture.colors), "rows": rows, "columns": columns, "first": first}


def _data_address(colors: np.ndarray) -> str:
    content = io.BytesIO()
    Image.fromarray(colors).save(content, "PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
