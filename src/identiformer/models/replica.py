"""Replicas of a network: new modules and configurations that share the weights of the original.

Hooks, attention functions and patched methods go into a replica, which also keeps whatever a run leaves behind. The network
itself is never changed, so other threads may trace it or run it at the same time.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import is_not
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

PLAIN = frozenset({bool, int, float, str, type(None), type, Tensor, nn.Parameter, torch.dtype, torch.device})
"""Types of values that cannot refer to a module, and are shared."""

CALLABLES = frozenset({FunctionType, MethodType, partial})


def replica_of(network: Any) -> Any:
    """Make a replica in evaluation mode, not compiled, that can be changed without changing the original.

    Weights and buffers are shared: a replica takes almost no memory, and less than a millisecond per hundred modules.
    """
    return _Replicas().replica(network)


@contextmanager
def hooked(modules: Iterable[nn.Module], hook: Callable[..., Any], *, before: bool = False, **options: Any) -> Iterator[None]:
    """Call a hook after, or before, each run of some modules of a replica; `options` are torch's."""
    with ExitStack() as handles:
        for module in modules:
            register = module.register_forward_pre_hook if before else module.register_forward_hook
            handles.enter_context(register(hook, **options))
        yield


class _Replicas:
    """Copies the modules, configurations and containers of one network, each once."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}  # original and copy, by the id of the original
        self._callables: list[tuple[Any, Any, Any]] = []  # container, key, value

    def replica(self, network: nn.Module) -> nn.Module:
        replica = self._copy_of(network)
        # A method can be bound to the copy of its module only when all modules are copied.
        for container, key, value in self._callables:
            container[key] = self._rebound(value)
        return replica

    def _copy_of(self, value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if id(value) in self._copies:
            return self._copies[id(value)][1]
        if kind is set:
            return value.copy()
        if kind is tuple:
            items = tuple(map(self._copy_of, value))
            return items if any(map(is_not, items, value)) else value
        if kind in (dict, OrderedDict, list):
            copy = value.copy()
            self._copies[id(value)] = value, copy
            self._replace_values(copy)
            return copy
        if isinstance(value, nn.Module | PreTrainedConfig) and not isinstance(value, torch.jit.ScriptModule):
            changes = {"training": False, "_compiled_call_impl": None}  # compiled code ignores hooks
            return self._copy_attributes(value, changes if isinstance(value, nn.Module) else {})
        if hasattr(kind, "pre_forward"):  # a hook of accelerate, which notes what it has brought in
            return self._copy_attributes(value, {})
        return value

    def _copy_attributes(self, value: Any, changes: dict[str, Any]) -> Any:
        copy = object.__new__(type(value))
        vars(copy).update(vars(value) | changes)
        self._copies[id(value)] = value, copy
        self._replace_values(vars(copy))
        return copy

    def _replace_values(self, container: Any) -> None:
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            kind = type(value)
            if kind in PLAIN:
                continue
            if kind in CALLABLES:
                self._callables.append((container, key, value))
            elif kind is OrderedDict and not value:  # hooks: a module has ten such dicts, most of them empty
                container[key] = OrderedDict()
            else:
                container[key] = self._copy_of(value)

    def _rebound(self, value: Any) -> Any:
        """A callable bound to, or closing over, the copies of modules in place of the modules."""
        if isinstance(value, MethodType):
            owner = self._known_copy(value.__self__)
            return value if owner is value.__self__ else MethodType(value.__func__, owner)
        if isinstance(value, partial):
            named = {name: self._rebound(item) for name, item in value.keywords.items()}
            copy = partial(self._rebound(value.func), *map(self._rebound, value.args), **named)
            copy.__dict__.update(value.__dict__)
            return copy
        if isinstance(value, FunctionType) and value.__closure__:
            return self._with_closure(value, value.__closure__)
        return self._known_copy(value)

    def _with_closure(self, function: FunctionType, cells: tuple[CellType, ...]) -> FunctionType:
        contents = [_content(cell) for cell in cells]
        rebound = [self._rebound(item) if isinstance(item, nn.Module | MethodType | partial) else item for item in contents]
        if not any(map(is_not, rebound, contents)):
            return function
        closure = tuple(cell if new is old else CellType(new) for cell, old, new in zip(cells, contents, rebound, strict=True))
        copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__.update(function.__dict__)
        return copy

    def _known_copy(self, value: Any) -> Any:
        return self._copies.get(id(value), (value, value))[1] if isinstance(value, nn.Module | PreTrainedConfig) else value


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
