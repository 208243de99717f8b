"""Run a model with the values of one token set to zero in one layer, for all tokens and layers at once."""

from collections.abc import Collection
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.equations.attention.heads import per_head
from identiformer.equations.attribution.agreement import cosine_distance
from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.derivatives.input_site import block_of, require_finite
from identiformer.models.encoding.text import Batch
from identiformer.models.model import Model
from identiformer.progress import WorkBar

TOKENS_AT_ONCE = 2048


def zeroing_effects(
    model: Model, text: str | Tensor, pair: str | None, layers: Collection[int], truncate: bool, bar: WorkBar
) -> dict[int, Tensor]:
    """For each layer (target source): 1 - cos of the layer's output with and without the values of the source."""
    batch = model.encode(text, pair, truncate)
    positions = batch.longest
    effects = {layer: torch.empty(positions, positions, dtype=torch.float64) for layer in layers}
    bar.expect(positions)
    for sources in torch.arange(positions).split(max(1, TOKENS_AT_ONCE // positions)):
        run = _ZeroedRun(sources, layers, batch.longest, model.backbone.config.model_type)
        for layer, columns in run.effects(model, batch).items():
            effects[layer][:, sources] = columns
        bar.advance(len(sources))
    return effects


class _ZeroedRun:
    """One run on an unchanged copy of the text and one copy per source, in which the values of that source are zero.

    After each layer all copies continue as the unchanged one: so one run serves all layers, each changed alone.
    """

    def __init__(self, sources: Tensor, layers: Collection[int], positions: int, family: str) -> None:
        self._sources, self._layers, self._positions, self._family = sources, layers, positions, family
        self._copies = 1 + len(sources)
        self._effects: dict[int, Tensor] = {}
        self._calls = self._blocks = 0

    def effects(self, model: Model, batch: Batch) -> dict[int, Tensor]:
        """(target source) for each layer."""
        replica = model.replica()
        with ExitStack() as hooks:
            for block in {block_of(replica, site.path) for site in model.sites(batch)}:  # one may serve several layers
                hooks.enter_context(block.register_forward_hook(self.after_block))
            hooks.enter_context(recording(replica, WEIGHTS, self.zero_values))
            inputs = {name: tensor.repeat_interleave(self._copies, 0) for name, tensor in batch.inputs.items()}
            model.forward(replica, inputs)
        return self._effects

    def zero_values(self, call: Call) -> Tensor | None:
        """The head outputs of a layer, with the values of one source zero in each copy."""
        self._calls += 1
        if self._calls not in self._layers or call.weights is None:
            return None
        values = call.value.clone()
        values[torch.arange(1, self._copies), :, self._sources] = 0
        values = per_head(values, call.heads, 1)
        # The unchanged copy is multiplied here too, so that all copies round alike.
        return (call.weights.to(values) @ values).transpose(1, 2).contiguous()

    def after_block(self, _: nn.Module, __: Any, result: Any) -> Any:
        """Measure the effects of a layer, and continue as without them."""
        self._blocks += 1
        states = result[0] if isinstance(result, tuple) else result
        expected = (self._copies, self._positions)
        if self._calls != self._blocks or not isinstance(states, Tensor) or states.shape[:-1] != expected:
            raise UnsupportedModelError(
                f"the {self._family} family has layers without exactly one attention and one hidden vector per token; its "
                "values cannot be zeroed layer by layer."
            )
        if self._blocks in self._layers:
            require_finite(states, self._blocks)
            self._effects[self._blocks] = cosine_distance(states[:1].cpu(), states[1:].cpu()).mT
        unchanged = states[:1].repeat(self._copies, 1, 1)
        return (unchanged, *result[1:]) if isinstance(result, tuple) else unchanged
