"""Functions with a hand-written gradient, through which forward mode cannot differentiate: BLOOM and RecurrentGemma.

torch can differentiate what they compute. RecurrentGemma clips its gradient where it is large, for training; without the
hand-written one it is exact.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from identiformer.models.library_output import SharedContext

FUNCTIONS = ("bloom.modeling_bloom.GeLUFunction", "recurrent_gemma.modeling_recurrent_gemma.SqrtBoundDerivative")

_replaced: ContextVar[bool] = ContextVar("replaced", default=False)


class _NoContext:
    """The context argument of a function's forward pass, which would save inputs for the hand-written gradient."""

    def save_for_backward(self, *_: Any) -> None:
        pass


@contextmanager
def without_custom_gradients() -> Iterator[None]:
    """Let torch differentiate what these functions compute, in this thread alone."""
    with _chosen_by_thread():
        token = _replaced.set(True)
        try:
            yield
        finally:
            _replaced.reset(token)


@SharedContext
@contextmanager
def _chosen_by_thread() -> Iterator[None]:
    """Make the functions, which belong to the process, look up what the calling thread has chosen."""
    with ExitStack() as undo:
        for path in FUNCTIONS:
            module, _, name = path.rpartition(".")
            function = getattr(sys.modules.get(f"transformers.models.{module}"), name, None)
            if function is not None:
                function.apply = _chosen(function, function.apply)
                undo.callback(delattr, function, "apply")  # uncovers the inherited method
        yield


def _chosen(function: Any, with_gradient: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*arguments: Any) -> Any:
        return function.forward(_NoContext(), *arguments) if _replaced.get() else with_gradient(*arguments)

    return apply
