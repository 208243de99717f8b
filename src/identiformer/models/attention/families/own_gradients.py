"""BLOOM and RecurrentGemma: functions that say how a gradient goes back through them, which forward mode cannot use.

What they compute is plain, so torch can differentiate that. RecurrentGemma's own gradient is cut off where the true one is large,
as training wants it; here it is the true one.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from identiformer.models.library_output import SharedContext

FUNCTIONS = ("bloom.modeling_bloom.GeLUFunction", "recurrent_gemma.modeling_recurrent_gemma.SqrtBoundDerivative")

_within: ContextVar[bool] = ContextVar("within", default=False)


class _NothingToKeep:
    """What a function is given to keep its inputs for a gradient of its own."""

    def save_for_backward(self, *_: Any) -> None:
        pass


@contextmanager
def differentiated_within() -> Iterator[None]:
    """Within this context, and in this thread alone, torch differentiates what these functions compute."""
    with _by_thread():
        token = _within.set(True)
        try:
            yield
        finally:
            _within.reset(token)


@SharedContext
@contextmanager
def _by_thread() -> Iterator[None]:
    """The functions belong to the process: each thread finds in them what it asked for."""
    places = (path.rpartition(".")[::2] for path in FUNCTIONS)
    loaded = ((sys.modules.get(f"transformers.models.{module}"), name) for module, name in places)
    functions = [getattr(module, name) for module, name in loaded if module is not None]
    try:
        for function in functions:
            function.apply = _chosen(function, function.apply)
        yield
    finally:
        for function in functions:
            del function.apply  # its own is inherited


def _chosen(function: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*given: Any) -> Any:
        return function.forward(_NothingToKeep(), *given) if _within.get() else own(*given)

    return apply
