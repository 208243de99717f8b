"""Run a model from one layer on with something removed there, many removals per forward pass, and measure its output."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor

from identiformer.equations.attribution.agreement import cosine_distance
from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.attention.sites import backbone_of
from identiformer.models.derivatives.input_site import block_of, require_finite
from identiformer.models.encoding.text import Batch
from identiformer.models.interventions.removal import TOKENS_AT_ONCE, Remove, changed_outputs
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import replica_of


def output_effects(model: LoadedModel, batch: Batch, layers: Sequence[int], remove: Remove, *, edges: bool) -> dict[int, Tensor]:
    """For each layer (target source): how much the model's output at the target changes without the source in that layer.

    The output is the next-token distribution, compared by the KL divergence, where the model predicts tokens, and otherwise the
    last hidden state, compared by 1 - cos. A source is removed for all queries; with `edges`, for the target alone, which takes
    one copy of the text per pair.
    """
    run = _Resumption(model, batch, remove)
    positions = batch.longest
    effects = {layer: torch.empty(positions, positions, dtype=torch.float64) for layer in layers}
    sources = torch.arange(positions)
    pairs = torch.cartesian_prod(sources, sources) if edges else torch.stack([torch.full_like(sources, -1), sources], -1)
    for layer, effect in effects.items():
        for part in pairs.split(max(1, TOKENS_AT_ONCE // positions)):
            change = run.change(layer, part)
            if edges:
                effect[part[:, 0], part[:, 1]] = change[torch.arange(len(part)), part[:, 0]]
            else:
                effect[:, part[:, 1]] = change.mT
    return effects


class _Resumption:
    """Runs on copies of a text that skip the blocks before a layer, whose results are those of the unchanged run."""

    def __init__(self, model: LoadedModel, batch: Batch, remove: Remove) -> None:
        self._model, self._batch, self._remove = model, batch, remove
        self._sites = model.sites(batch)
        self._layer, self._pairs = 0, torch.zeros(0, 2, dtype=torch.long)
        self._results: list[Any] = []
        self._blocks = self._calls = 0
        self._whole = True
        self._unchanged, self._predicts = self._unchanged_output()

    def _unchanged_output(self) -> tuple[Tensor, bool]:
        """The output of the unchanged text, and whether it is a prediction of tokens. Records the result of each block."""
        result = self._run(1)
        logits = getattr(result, "logits", None)
        if isinstance(logits, Tensor) and logits.ndim == 3 and logits.shape[1] == self._batch.longest:
            return logits.double().cpu().log_softmax(-1), True
        self._whole, self._results = False, []
        return self._states(self._run(1)), False

    def change(self, layer: int, pairs: Tensor) -> Tensor:
        """(pair position): the change of the output at each position if a source is removed for a query, or for all (-1)."""
        self._layer, self._pairs = layer, pairs
        result = self._run(len(pairs))
        if self._predicts:
            changed = result.logits.double().cpu().log_softmax(-1)
            return (self._unchanged.exp() * (self._unchanged - changed)).sum(-1)
        return cosine_distance(self._unchanged, self._states(result))

    def _states(self, result: Any) -> Tensor:
        states = getattr(result, "last_hidden_state", None)
        expected = self._batch.longest
        if not isinstance(states, Tensor) or states.ndim != 3 or states.shape[1] != expected:
            family = self._model.backbone.config.model_type
            raise UnsupportedModelError(f"the {family} family returns no hidden vector per token; its output cannot be compared.")
        require_finite(states, len(self._sites))
        return states.double().cpu()

    def _run(self, copies: int) -> Any:
        """Run the network on copies of the text; without its head where that predicts nothing per token."""
        self._blocks = self._calls = 0
        replica = replica_of(self._model.network) if self._whole else self._model.replica()
        backbone = backbone_of(replica)
        for block in {block_of(backbone, site.path) for site in self._sites}:
            block.forward = partial(self._forward, block.forward)
        inputs = {name: tensor.repeat_interleave(copies, 0) for name, tensor in self._batch.inputs.items()}
        with ExitStack() as stack:
            stack.enter_context(recording(replica, WEIGHTS, self._remove_sources))
            return self._model.forward(replica, inputs)

    def _forward(self, forward: Any, *arguments: Any, **named: Any) -> Any:
        """A block: recorded in the unchanged run, skipped before the layer, and run as it is from there on."""
        self._blocks += 1
        if self._blocks < self._layer:
            result = self._results[self._blocks - 1]
            states = (result[0] if isinstance(result, tuple) else result).repeat_interleave(len(self._pairs), 0)
            return (states, *result[1:]) if isinstance(result, tuple) else states
        result = forward(*arguments, **named)
        if self._layer == 0:
            self._results.append(result)
            self._require_one_call()
        return result

    def _require_one_call(self) -> None:
        if self._calls != self._blocks:
            raise UnsupportedModelError(
                f"the {self._model.backbone.config.model_type} family has layers without exactly one attention; tokens cannot be "
                "removed layer by layer."
            )

    def _remove_sources(self, call: Call) -> Tensor | None:
        """The head outputs of the layer without a source, for all queries or for one."""
        self._calls += 1
        if self._layer == 0 or self._calls != 1:  # the first attention that runs is that of the layer
            return None
        queries, sources = self._pairs.T
        changed = changed_outputs(call, self._remove, sources)
        if bool((queries < 0).all()):
            return changed
        output, copies = call.output.clone(), torch.arange(len(queries))
        output[copies, queries] = changed[copies, queries]
        return output
