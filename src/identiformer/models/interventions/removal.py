"""Run a model with one token removed from the attention of one layer, for all tokens and layers at once."""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.equations.attention.removal import Removal, zero_values
from identiformer.equations.attribution.agreement import cosine_distance
from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.derivatives.input_site import block_of, require_finite
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel
from identiformer.progress import WorkBar

TOKENS_AT_ONCE = 2048

Remove = Callable[[Tensor, Tensor, bool], Removal]
"""From weights (head query key), values (group key width) and whether there is a learned sink to the change of head outputs."""


def layer_effects(
    model: LoadedModel,
    batch: Batch,
    layers: Collection[int],
    bar: WorkBar,
    remove: Remove = zero_values,
) -> dict[int, Tensor]:
    """For each layer (target source): 1 - cos of the layer's output with and without the source.

    A source is removed for all queries at once: row i of a layer's output depends on row i of its attention only, so one copy of
    the text per source serves every pair.
    """
    positions = batch.longest
    effects = {layer: torch.empty(positions, positions, dtype=torch.float64) for layer in layers}
    bar.expect(positions)
    for sources in torch.arange(positions).split(max(1, TOKENS_AT_ONCE // positions)):
        run = _RemovalRun(sources, layers, positions, model.backbone.config.model_type, remove)
        for layer, columns in run.effects(model, batch).items():
            effects[layer][:, sources] = columns
        bar.advance(len(sources))
    return effects


class _RemovalRun:
    """One run on an unchanged copy of the text and one copy per source, in which that source is removed.

    After each layer all copies continue as the unchanged one: so one run serves all layers, each changed alone.
    """

    def __init__(self, sources: Tensor, layers: Collection[int], positions: int, family: str, remove: Remove) -> None:
        self._sources, self._layers, self._positions, self._family = sources, layers, positions, family
        self._remove = remove
        self._copies = 1 + len(sources)
        self._effects: dict[int, Tensor] = {}
        self._calls = self._blocks = 0

    def effects(self, model: LoadedModel, batch: Batch) -> dict[int, Tensor]:
        """(target source) for each layer."""
        replica = model.replica()
        with ExitStack() as hooks:
            for block in {block_of(replica, site.path) for site in model.sites(batch)}:  # one may serve several layers
                hooks.enter_context(block.register_forward_hook(self.after_block))
            hooks.enter_context(recording(replica, WEIGHTS, self.remove_sources))
            inputs = {name: tensor.repeat_interleave(self._copies, 0) for name, tensor in batch.inputs.items()}
            model.forward(replica, inputs)
        return self._effects

    def remove_sources(self, call: Call) -> Tensor | None:
        """The head outputs of a layer, without one source in each copy."""
        self._calls += 1
        if self._calls not in self._layers or call.weights is None:
            return None
        output = call.output.clone()
        output[1:] = changed_outputs(call, self._remove, self._sources)
        return output

    def after_block(self, _: nn.Module, __: Any, result: Any) -> Any:
        """Measure the effects of a layer, and continue as without them."""
        self._blocks += 1
        states = result[0] if isinstance(result, tuple) else result
        expected = (self._copies, self._positions)
        if self._calls != self._blocks or not isinstance(states, Tensor) or states.shape[:-1] != expected:
            raise UnsupportedModelError(
                f"the {self._family} family has layers without exactly one attention and one hidden vector per token; tokens "
                "cannot be removed layer by layer."
            )
        if self._blocks in self._layers:
            require_finite(states, self._blocks)
            self._effects[self._blocks] = cosine_distance(states[:1].cpu(), states[1:].cpu()).mT
        unchanged = states[:1].repeat(self._copies, 1, 1)
        return (unchanged, *result[1:]) if isinstance(result, tuple) else unchanged


def changed_outputs(call: Call, remove: Remove, sources: Tensor) -> Tensor:
    """The head outputs (source query head width) of the first copy without each of some sources.

    The change is computed in float64 and added to what the model computed, so that all copies round alike.
    """
    if call.weights is None:
        raise ValueError("expected a call that records weights")
    removal = remove(call.weights[0], call.value[0], "sink" in call.extras)
    return (call.output[0].double() + removal.changes(sources).transpose(1, 2)).to(call.output)
