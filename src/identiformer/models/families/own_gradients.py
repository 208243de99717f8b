"""BLOOM and RecurrentGemma: functions that say how a gradient goes back through them, which forward mode cannot use.

What they compute is plain, so torch can differentiate that. RecurrentGemma's own gradient is cut off where the true one is large,
as training wants it; here it is the true one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FUNCTIONS = ("bloom.modeling_bloom.GeLUFunction", "recurrent_gemma.modeling_recurrent_gemma.SqrtBoundDerivative")


class _NothingToKeep:
    """What a function is given to keep its inputs for a gradient of its own."""

    def save_for_backward(self, *_: Any) -> None:
        pass


@contextmanager
def differentiated_within() -> Iterator[None]:
    """Within this context torch differentiates what these functions compute."""
    places = (path.rpartition(".")[::2] for path in FUNCTIONS)
    loaded = ((sys.modules.get(f"transformers.models.{module}"), name) for module, name in places)
    functions = [getattr(module, name) for module, name in loaded if module is not None]
    try:
        for function in functions:
            function.apply = lambda *given, forward=function.forward: forward(_NothingToKeep(), *given)
        yield
    finally:
        for function in functions:
            del function.apply  # its own is inherited
