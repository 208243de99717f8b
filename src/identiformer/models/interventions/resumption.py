"""Run a model again from the block where something changes, on several copies of a text and on the positions that can change."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call, prefixed
from identiformer.models.attention.interface import FUSED, WEIGHTS, recording
from identiformer.models.attention.sites import backbone_of
from identiformer.models.derivatives.input_function import with_input
from identiformer.models.derivatives.input_site import block_of
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel

Receive = Callable[[int, Call], Tensor | None]
"""From the number of an attention call and the call to the head outputs that replace its own."""
Read = Callable[[Any, int], Tensor]
"""From what the network returns, of the positions from the second argument on, to what is compared."""
SAME = 1e-4
"""Of the largest output: how far a resumed run may be from a whole one, in float32."""


@dataclass
class _Block:
    """One run of a block in the unchanged forward pass."""

    inputs: Tensor
    result: Any
    first_call: int


class Resumption:
    """A forward pass that is repeated from any of its blocks on, with the outputs of some heads changed.

    Blocks before the change are skipped, since their results are those of the unchanged run. In a causal model, so are positions
    before it: their keys and values are known. Both are tried once: whatever does not reproduce the unchanged run is computed.

    Parameters
    ----------
    model : LoadedModel
        Whose network is run: the whole one, or the backbone, as `network` is.
    network : module
        A replica that nothing else uses.
    batch : Batch
        One text.
    read : callable
        What of the result is compared, of the positions from a number on; with 0 of all.
    causal : bool
        Whether a change at one position leaves the results at earlier ones, and `read` can leave those out.
    fused : bool
        Whether attention is a fused kernel, for long texts. Calls then have no weights.
    options
        Of the forward pass.
    """

    def __init__(
        self,
        model: LoadedModel,
        network: Any,
        batch: Batch,
        read: Read,
        *,
        causal: bool = False,
        fused: bool = False,
        **options: Any,
    ) -> None:
        self._model, self._network, self._batch, self._read, self._options = model, network, batch, read, options
        self._implementation = FUSED if fused else WEIGHTS
        self._sites = model.sites(batch)
        self._blocks: list[_Block] = []
        self._keys: list[tuple[Tensor | None, Tensor, Tensor | None]] = []  # of each call, with values and mask
        self._start = self._block = self._call = self._copies = 0
        self._first, self._resuming = 0, False
        self.skips, self.cuts = True, causal
        self._patch_blocks()
        self.unchanged = self.run(0, 1, lambda _, __: None)
        self._resuming = True
        self.cuts = self.cuts and self._reproduces(1)
        self.skips = self.skips and (self.cuts or self._reproduces(0))

    def run(self, call: int, copies: int, receive: Receive, first: int = 0) -> Tensor:
        """What `read` returns for copies of the text, in which the head outputs of a call change, and no earlier one.

        call: its number among all attention calls of the forward pass, from 0.
        first: the first position at which something changes.
        """
        self._first = first if self.cuts and self._resuming else 0
        self._start = self._block_of(call) if self.skips and self._resuming else 0
        self._block, self._call, self._copies = 0, 0, copies

        def on_call(made: Call) -> Tensor | None:
            number = self._call
            self._call += 1
            if not self._resuming:
                self._keys.append((made.key, made.value, made.mask))
            return receive(number, made)

        inputs = {name: tensor.repeat_interleave(copies, 0) for name, tensor in self._batch.inputs.items()}
        if self._first:
            inputs = {name: tensor[:, self._first :] for name, tensor in inputs.items() if name != "attention_mask"}
            inputs["position_ids"] = torch.arange(self._first, self._batch.longest)[None].repeat(copies, 1)
        with recording(self._network, self._implementation, on_call), self._with_prefix():
            return self._read(self._model.forward(self._network, inputs, **self._options), self._first)

    def _reproduces(self, first: int) -> bool:
        """Whether a run that is resumed in the middle, from a position on, ends as the whole one does."""
        try:
            resumed = self.run(len(self._sites) // 2, 1, lambda _, __: None, first)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError):
            return False
        expected = self.unchanged[:, -resumed.shape[1] :] if first and resumed.ndim > 1 else self.unchanged
        if resumed.shape != expected.shape:
            return False
        return bool((resumed - expected).abs().max() <= SAME * expected[expected.isfinite()].abs().max())

    def _block_of(self, call: int) -> int:
        """The number of the run of a block that makes this call."""
        return max(number for number, block in enumerate(self._blocks) if block.first_call <= call)

    def _patch_blocks(self) -> None:
        backbone = backbone_of(self._network)
        try:
            blocks = {block_of(backbone, site.path) for site in self._sites}
        except (UnsupportedModelError, AttributeError):  # blocks without numbers, which are always run
            self.skips = self.cuts = False
            return
        for block in blocks:
            block.forward = partial(self._forward, block.forward)

    def _forward(self, forward: Any, *arguments: Any, **named: Any) -> Any:
        """A block: recorded in the unchanged run, skipped before the change, and run from there on."""
        number, self._block = self._block, self._block + 1
        if not self._resuming:
            made, states = self._call, arguments[0] if arguments else named["hidden_states"]
            result = forward(*arguments, **named)
            self._blocks.append(_Block(states, result, made))
            return result
        known = self._blocks[number]
        if number < self._start:
            return self._repeated(known.result)
        if number == self._start and self.skips:
            self._call = known.first_call
            arguments, named = with_input(arguments, named, lambda _: self._repeated(known.inputs))
        return forward(*arguments, **named)

    def _repeated(self, result: Any) -> Any:
        """The hidden states of the positions that are run, once per copy."""
        if isinstance(result, tuple):
            return (self._repeated(result[0]), *result[1:])
        return result[:, self._first :].repeat_interleave(self._copies, 0)

    @contextmanager
    def _with_prefix(self) -> Iterator[None]:
        """Let the positions that are run attend to those before them, too."""
        if not self._first:
            yield
            return

        def extend(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
            keys, values, mask = self._keys[self._call]
            assert keys is not None
            before = (known[:, :, : self._first].expand(len(key), -1, -1, -1) for known in (keys, values))
            key, value = (torch.cat(pair, 2) for pair in zip(before, (key, value), strict=True))
            if mask is None:
                mask = torch.ones(self._batch.longest, self._batch.longest, dtype=torch.bool).tril()[None, None]
            return key, value, mask[:, :, self._first :]

        with prefixed(extend):
            yield
