"""A limit on what a model may grow to while it is built: a configuration can ask for anything, its files hold only so much."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from identiformer.errors import ModelError
from identiformer.models.loading.weight_files import WeightFiles

Shapes = dict[tuple[int, str], torch.Size]
"""The shape of each parameter, by the identity of its module and its name there."""

MOST_WEIGHTS_PER_BYTE = 8
"""Quantized weights take from 1.5 bits on, and a tied one counts wherever it is used."""
SPARE_WEIGHTS = 2**26
SPARE_BYTES = 2**30
"""What a model may hold that its files do not: heads that are not used, tables of positions."""
MOST_PARAMETERS_PER_TENSOR, SPARE_PARAMETERS = 8, 2_000


@contextmanager
def size_limit(files: WeightFiles, name: str) -> Iterator[Shapes]:
    """Within this context, a model that transformers builds in this thread is rejected once it exceeds what its files can fill.

    transformers builds on torch's meta device, where nothing is allocated yet. Yields the shapes that the model was built with.
    """
    shapes: Shapes = {}
    weights = buffers = 0
    most_weights = MOST_WEIGHTS_PER_BYTE * files.size + SPARE_WEIGHTS
    most_parameters = None if files.tensors is None else MOST_PARAMETERS_PER_TENSOR * files.tensors + SPARE_PARAMETERS
    builder = threading.get_ident()

    def too_large(what: str) -> ModelError:
        return ModelError(
            f"expected a model that the weights in {name} ({files.size:,} bytes) can fill, got a configuration that asks for "
            f"more than {what}; get the configuration that belongs to them."
        )

    def on_parameter(module: nn.Module, key: str, tensor: Tensor | None) -> None:
        nonlocal weights
        if tensor is None or not tensor.is_meta or threading.get_ident() != builder:
            return
        place = id(module), key
        weights += tensor.numel() - shapes.get(place, torch.Size((0,))).numel()
        shapes[place] = tensor.shape
        if weights > most_weights:
            raise too_large(f"{most_weights:,} weights")
        if most_parameters is not None and len(shapes) > most_parameters:
            raise too_large(f"{most_parameters:,} parameters")

    def on_buffer(module: nn.Module, key: str, tensor: Tensor | None) -> None:
        nonlocal buffers
        if tensor is None or not tensor.is_meta or threading.get_ident() != builder:
            return
        buffers += tensor.numel() * tensor.itemsize
        if buffers > most_weights + SPARE_BYTES:
            raise too_large(f"{buffers:,} bytes of tables beside them")

    hooks = [register_module_parameter_registration_hook(on_parameter), register_module_buffer_registration_hook(on_buffer)]
    try:
        yield shapes
    finally:
        for hook in hooks:
            hook.remove()
