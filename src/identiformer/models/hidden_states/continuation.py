"""The states of many candidates for the next token of one prefix, with the keys and values of the prefix computed once."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import DynamicCache

from identiformer.models.attention.sites import backbone_of
from identiformer.models.blocks.layout import find_stack
from identiformer.models.generation.generate import require_language_model
from identiformer.models.loaded import LoadedModel
from identiformer.models.replica import replica_of


class _ReachedError(Exception):
    """The layer is computed; those above it are not needed."""


class Continuation:
    """A prefix of a causal language model, and the states at one layer of whatever token may follow it."""

    def __init__(self, model: LoadedModel, layer: int) -> None:
        require_language_model(model)
        self._network = replica_of(model.network)
        self._backbone = backbone_of(self._network)
        self._device = model.network.device
        self._layer = layer
        stack = find_stack(self._backbone)
        # The last layer's state comes after a norm; families with unknown blocks are run to the end.
        stops = stack is not None and 0 < layer < len(stack.blocks)
        self._last_block: nn.Module | None = stack.blocks[layer - 1] if stack is not None and stops else None
        self._cache = DynamicCache()
        self.length = 0

    @torch.no_grad()
    def append(self, token: int) -> Float[Tensor, " token"]:
        """Make a token part of the prefix, and return the logarithms of the probabilities of the next one."""
        ids = torch.tensor([[token]], device=self._device)
        logits = self._network(input_ids=ids, past_key_values=self._cache, use_cache=True, attention_mask=self._mask(1)).logits
        self.length += 1
        return logits[0, -1].float().log_softmax(-1).cpu()

    @torch.no_grad()
    def expected_after(self, tokens: Int64[Tensor, " first"]) -> Float[Tensor, "first token"]:
        """The logarithms of the probabilities of the next token if each of these is the first, whatever the prefix."""
        logits = self._network(input_ids=tokens.to(self._device)[:, None]).logits
        return logits[:, -1].float().log_softmax(-1).cpu()

    @torch.no_grad()
    def states(self, tokens: Int64[Tensor, " candidate"]) -> Float[Tensor, "candidate width"]:
        """The state of each token if it follows the prefix."""
        count = len(tokens)
        run = self._cache.layers[: None if self._last_block is None else self._layer]
        kept: list[Any] = [(layer.keys, layer.values) for layer in run]  # pyright: ignore[reportAttributeAccessIssue]
        # Only the layers that are run, and as views: each layer copies its own when it adds the candidate.
        views = [tuple(each.expand(count, *each.shape[1:]) for each in pair) for pair in kept]
        cache, mask = DynamicCache(views or None), self._mask(count)
        ids = tokens.to(self._device)[:, None]
        with self._stopped_after_layer() as reached:
            result = self._backbone(
                input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, output_hidden_states=True
            )
            reached.append(result.hidden_states[self._layer])
        return reached[0][:, -1].cpu()

    def _mask(self, count: int) -> Tensor:
        return torch.ones(count, self.length + 1, dtype=torch.int64, device=self._device)

    @contextmanager
    def _stopped_after_layer(self) -> Iterator[list[Tensor]]:
        """Stop a run where the layer is computed, and yield where its state will be."""
        reached: list[Tensor] = []

        def stop(_: nn.Module, __: Any, output: Any) -> None:
            reached.append(output[0] if isinstance(output, tuple) else output)
            raise _ReachedError

        hook = nullcontext() if self._last_block is None else self._last_block.register_forward_hook(stop)
        with hook, suppress(_ReachedError):
            yield reached
