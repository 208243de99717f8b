"""The inputs and outputs of modules during one run, and the hidden states that a run returns."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from identiformer.models.replica import hooked

States = dict[nn.Module, tuple[Tensor, Tensor]]
"""The input and output of each module, (position width)."""


@contextmanager
def recorded_states(modules: Iterable[nn.Module]) -> Iterator[States]:
    """Record the first input and the output of modules of a replica; of those that map vectors of one text to vectors."""
    states: States = {}

    def on_output(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        output = output[0] if isinstance(output, tuple) else output
        if arguments and isinstance(output, Tensor) and output.ndim == 3:
            states[module] = arguments[0][0], output[0]

    with hooked(modules, on_output):
        yield states


def hidden_states_of(result: Any) -> tuple[Tensor, ...]:
    """Return the hidden states in a model's output; for an encoder-decoder those of its encoder."""
    states = getattr(result, "hidden_states", None)
    return getattr(result, "encoder_hidden_states", ()) or () if states is None else states
