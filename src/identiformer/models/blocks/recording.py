"""Record the blocks of a model while it runs on a text."""

from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from identiformer.errors import UnsupportedModelError
from identiformer.models.blocks.layout import Linear, Stack, find_stack, in_memory, norm_epsilon
from identiformer.models.blocks.module_states import States, recorded_states
from identiformer.models.blocks.recorded import RecordedBlock, RecordedBlocks, RecordedFeedForward, RecordedNorm, norm_at
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel
from identiformer.models.offloaded import with_weights

AGREE, HALF_AGREE = 1e-4, 5e-2
"""Relative difference that rounding leaves between the recorded sums and norms of a block and those of the model; in half
precision. RMSNorm computes in float32 in a model of any precision."""


def record_blocks(model: LoadedModel, batch: Batch) -> RecordedBlocks:
    """Run a model once on a text, and record the residual stream, norms and feed-forward layer of each block.

    Raises UnsupportedModelError for a model whose blocks do not have the layout of BERT, Llama or GPT-2, or that computes
    something else with the same modules.
    """
    replica = model.replica()
    family = str(model.backbone.config.model_type)
    stack = None if model.network.config.is_encoder_decoder else find_stack(replica)
    if stack is None:
        raise UnsupportedModelError(
            f"expected blocks with the layout of BERT, Llama or GPT-2, got those of the {family} family; use a map that needs "
            "attention only."
        )
    modules = [*stack.blocks.modules(), *([] if stack.final_norm is None else [stack.final_norm])]
    with recorded_states(modules) as states, torch.no_grad():
        model.forward(replica, batch.inputs)
    return _Reader(stack, states, family).read()


class _Reader:
    """Reads the blocks of one run, and checks that they compute what their layout says."""

    def __init__(self, stack: Stack, states: States, family: str) -> None:
        self._stack, self._states, self._family = stack, states, family

    def read(self) -> RecordedBlocks:
        blocks = tuple(map(self._block, self._stack.blocks))
        if self._stack.final_norm is None:
            return RecordedBlocks(blocks, None, blocks[-1].output)
        norm = self._norm(self._stack.final_norm, blocks[-1].output)
        return RecordedBlocks(blocks, norm, norm.output)

    def _block(self, block: nn.Module) -> RecordedBlock:
        layout = self._stack.layout
        x, output = self._input(block), self._output(block)
        attention = self._output(block.get_submodule(layout.output))
        feed_forward = self._feed_forward(block)
        first, second = (block.get_submodule(name) for name in (layout.attention_norm, layout.feed_forward_norm))
        attention_norm = self._norm(first, x + attention if layout.norms_follow else x)
        middle = attention_norm.output if layout.norms_follow else x + attention
        feed_forward_norm = self._norm(second, middle + feed_forward.output if layout.norms_follow else middle)
        computed = feed_forward_norm.output if layout.norms_follow else middle + feed_forward.output
        self._check(computed, output, "residual sums")
        heads = [block.get_submodule(name) for name in layout.heads]
        return RecordedBlock(
            layout.norms_follow,
            x,
            in_memory(heads[-1]) if len(heads) > 1 else _last_third(in_memory(heads[0])),
            in_memory(block.get_submodule(layout.output)),
            attention,
            attention_norm,
            middle,
            feed_forward,
            feed_forward_norm,
            output,
        )

    def _feed_forward(self, block: nn.Module) -> RecordedFeedForward:
        layout = self._stack.layout
        into = [block.get_submodule(name) for name in layout.into]
        out_of: Any = block.get_submodule(layout.out_of)
        features = tuple(map(self._output, into))
        activation: Any = block.get_submodule(layout.activation)
        hidden = activation(features[0]) if len(features) == 1 else activation(features[0]) * features[1]
        if not isinstance(hidden, Tensor):  # I-BERT's activation returns a scale too
            self._reject("activation")
        self._check(hidden, self._input(out_of), "feed-forward layer")
        return RecordedFeedForward(tuple(map(in_memory, into)), features, activation, in_memory(out_of), self._output(out_of))

    def _norm(self, norm: Any, point: Tensor) -> RecordedNorm:
        self._check(point, self._input(norm), "residual sums")
        complete = with_weights(norm)
        weight = complete.weight.detach().cpu()
        bias = getattr(complete, "bias", None)
        bias = torch.zeros_like(weight) if bias is None else bias.detach().cpu()
        recorded = norm_at(point, weight, bias, norm_epsilon(norm), centered=isinstance(norm, nn.LayerNorm))
        self._check(recorded.output, self._output(norm), "norms")
        return recorded

    def _input(self, module: nn.Module) -> Tensor:
        return self._state(module)[0].double().cpu()

    def _output(self, module: nn.Module) -> Tensor:
        return self._state(module)[1].double().cpu()

    def _state(self, module: nn.Module) -> tuple[Tensor, Tensor]:
        if module not in self._states:  # OpenAI's first GPT returns lists
            self._reject("inputs and outputs of modules")
        return self._states[module]

    def _check(self, computed: Tensor, recorded: Tensor, what: str) -> None:
        half = next(self._stack.blocks.parameters()).dtype.itemsize < 4
        if not float((computed - recorded).norm()) <= (HALF_AGREE if half else AGREE) * float(recorded.norm()):
            self._reject(what)

    def _reject(self, what: str) -> NoReturn:
        raise UnsupportedModelError(
            f"the {self._family} family has the modules of a known layout, but its {what} are not those of BERT, Llama or GPT-2; "
            "use a map that needs attention only."
        )


def _last_third(fused: Linear) -> Linear:
    """The map to values of a map to queries, keys and values, which have one width."""
    return Linear(fused.weight.chunk(3, -1)[-1], fused.bias.chunk(3)[-1])
