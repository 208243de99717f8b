"""Longformer and LED's encoder: attention within a window, kept as a band (batch query head offset) and never as a matrix.

Each weight is laid where it belongs, A[q, q + offset - window], which is all that the product with values does. Tokens that see
everything have values of their own beside those of the window, so that the output is no A·V: such a run is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import OWN_SCORES, Call, Handover


@contextmanager
def banded(module: Any, hand_over: Handover) -> Iterator[None]:
    """Within this context the module hands over what it attends."""
    multiply = module._sliding_chunks_matmul_attn_probs_value

    def on_product(band: Tensor, values: Tensor, window: int) -> Tensor:
        output = multiply(band, values, window)
        positions = torch.arange(band.shape[1], device=band.device)
        offsets = positions - positions[:, None] + window
        seen = (offsets >= 0) & (offsets <= 2 * window)
        places = offsets.clamp(0, 2 * window).expand(*band.transpose(1, 2).shape[:2], *offsets.shape)
        call = Call(
            module=module,
            query=None,
            key=None,
            value=values.transpose(1, 2),
            output=output,
            weights=band.transpose(1, 2).gather(-1, places) * seen,
            mask=seen[None, None],
            causal=False,
            scaling=1.0,
            extras=frozenset({OWN_SCORES}),
        )
        return hand_over(call)

    def on_global(*_: Any, **__: Any) -> Tensor:
        raise UnsupportedModelError(
            f"{type(module).__name__} gives tokens that attend to everything values of their own, so that its output is not one "
            "attention times one set of values; run it without a global_attention_mask."
        )

    module._sliding_chunks_matmul_attn_probs_value = on_product
    module._compute_attn_output_with_global_indices = on_global
    try:
        yield
    finally:
        del module._sliding_chunks_matmul_attn_probs_value
        del module._compute_attn_output_with_global_indices
