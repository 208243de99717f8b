"""Run a model with the values of one token zero in one layer, for every token and layer at once."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.equations.attention.heads import per_head
from identiformer.equations.attribution.agreement import cosine_distance
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.derivatives.input_site import block_of
from identiformer.models.encoding.text import Batch
from identiformer.models.model import Model
from identiformer.progress import WorkBar

TOKENS_AT_ONCE = 2048


def zeroing_effects(
    model: Model, text: str | Tensor, pair: str | None, layers: Collection[int], truncate: bool, bar: WorkBar
) -> dict[int, Tensor]:
    """For each of these layers (target source): 1 - cos of what the layer gives with and without the values of a source."""
    batch = model._encode(text, pair, truncate)
    positions = batch.longest
    effects = {layer: torch.empty(positions, positions, dtype=torch.float64) for layer in layers}
    bar.expect(positions)
    for sources in torch.arange(positions).split(max(1, TOKENS_AT_ONCE // positions)):
        for layer, columns in _effects_of(model, batch, sources, layers).items():
            effects[layer][:, sources] = columns
        bar.advance(len(sources))
    return effects


def _effects_of(model: Model, batch: Batch, sources: Tensor, layers: Collection[int]) -> dict[int, Tensor]:
    """One run of a copy of the text as it is, and of one more for each source, whose values are zero in that copy.

    Behind each layer all copies go on as the unchanged one: so one run serves all layers, each changed alone.
    """
    copies = 1 + len(sources)
    changed = torch.arange(1, copies)
    effects: dict[int, Tensor] = {}
    called = left = 0

    def on_call(call: Call) -> Tensor | None:
        nonlocal called
        called += 1
        if called not in layers:
            return None
        assert call.weights is not None
        values = call.value.clone()
        values[changed, :, sources] = 0
        values = per_head(values, call.heads, 1)
        # The unchanged copy too is multiplied here, so that rounding is alike in all.
        return (call.weights.to(values) @ values).transpose(1, 2).contiguous()

    def on_leaving(_: nn.Module, __: Any, result: Any) -> Any:
        nonlocal left
        left += 1
        states = result[0] if isinstance(result, tuple) else result
        if called != left or not isinstance(states, Tensor) or states.shape[:-1] != (copies, batch.longest):
            raise UnsupportedModelError(
                f"the {model.backbone.config.model_type} family has layers that are not one attention and one hidden vector a "
                "token; its values cannot be zeroed layer by layer."
            )
        if left in layers:
            if not bool(states.isfinite().all()):
                raise InputError(
                    f"expected finite hidden states, got NaN or infinity at layer {left}; check the model's weights."
                )
            effects[left] = cosine_distance(states[:1].cpu(), states[1:].cpu()).mT
        unchanged = states[:1].repeat(copies, 1, 1)
        return (unchanged, *result[1:]) if isinstance(result, tuple) else unchanged

    replica = model.replica()
    blocks = {block_of(replica, site.path) for site in model.sites(batch)}  # one may serve several layers
    for block in blocks:
        block.register_forward_hook(on_leaving)
    with recording(replica, WEIGHTS, on_call):
        model._forward(replica, {name: tensor.repeat_interleave(copies, 0) for name, tensor in batch.inputs.items()}, False)
    return effects
