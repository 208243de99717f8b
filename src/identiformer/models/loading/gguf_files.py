"""GGUF files: their header, and the options with which transformers dequantizes them; both differ between its versions."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

try:
    from transformers import GgufConfig
    from transformers.integrations.gguf.reader import read_gguf_metadata
except ImportError:  # older versions always dequantize, and do not offer their reader
    GgufConfig = read_gguf_metadata = None


def gguf_options() -> dict[str, Any]:
    """Options of `from_pretrained` to compute with dequantized weights.

    Quantized weights would be multiplied by code from the hub, and the model's maps could not be read from them.
    """
    return {} if GgufConfig is None else {"quantization_config": GgufConfig(dequantize=True)}


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The metadata of a GGUF file, and the number of its tensors."""
    if read_gguf_metadata is not None:
        metadata, tensors = read_gguf_metadata(str(path))
        return metadata, len(tensors)
    from gguf import GGUFReader

    reader = GGUFReader(path)
    return {name: field.contents() for name, field in reader.fields.items()}, len(reader.tensors)


@contextmanager
def quiet_conversion() -> Iterator[None]:
    """Hide the bar that transformers shows while it dequantizes, whatever its settings; only where one thread builds models."""
    try:
        module: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
        bar = module.tqdm
    except (ImportError, AttributeError):  # versions without it
        yield
        return
    module.tqdm = partial(bar, disable=True)
    try:
        yield
    finally:
        module.tqdm = bar


@contextmanager
def single_reads() -> Iterator[None]:
    """Read a file's header once, and list its tensors' names once; transformers does so three times, and once per module."""
    gguf: Any = importlib.import_module("gguf")
    before = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader, gguf.get_tensor_name_map = map(cache, before)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = before
