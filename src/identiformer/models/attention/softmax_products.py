"""Follow what a softmax gives to its product with something: attention, whoever computes it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
KERNELS = {"scaled_dot_product_attention", "multi_head_attention_forward"}


class ProductsOfSoftmax(TorchFunctionMode, ABC):
    """While this is active, `on_product` and `on_kernel` say what takes the place of each product with weights."""

    def __init__(self) -> None:
        super().__init__()
        self._scores: Tensor | None = None
        self._weights: dict[int, Tensor] = {}  # by identity: what the last softmax gave, and what was made of it

    @abstractmethod
    def on_product(self, result: Tensor, equation: str, scores: Tensor, weights: Tensor, values: Tensor, /) -> Tensor:
        """A product of what the softmax of scores gave, perhaps cast, masked or reshaped; the equation is that of an einsum."""

    @abstractmethod
    def on_kernel(self, result: Tensor, *arguments: Any, **named: Any) -> Tensor:
        """A call of one of torch's own attention functions with these arguments."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        result = func(*args, **named)
        name = getattr(func, "__name__", "")
        if name in KERNELS:
            return self.on_kernel(result, *args, **named)
        if name == "softmax":
            self._scores = args[0] if args else named["input"]
            self._weights = {id(result): result}
        elif name in PRODUCTS and len(args) > 1:
            equation, left, *right = args if name == "einsum" else ("", *args)
            if id(left) in self._weights and len(right) == 1:
                assert self._scores is not None
                return self.on_product(result, equation, self._scores, left, right[0])
        elif isinstance(result, Tensor) and any(self._holds(each, result) for each in args):
            self._weights[id(result)] = result
        return result

    def _holds(self, argument: Any, result: Tensor) -> bool:
        return id(argument) in self._weights and argument.numel() == result.numel()


class _Whose(ProductsOfSoftmax):
    """Note within which modules each such product happens."""

    def __init__(self, running: list[nn.Module]) -> None:
        super().__init__()
        self._running = running
        self.found: list[tuple[nn.Module, ...]] = []

    def _note(self, result: Any) -> Any:
        names = [type(module).__name__.lower() for module in self._running]
        # A softmax that mixes experts or streams is no attention, and a pooling head that reads the last layer is no layer.
        if any("att" in name for name in names) and not any("pool" in name for name in names):
            self.found.append(tuple(self._running))
        return result

    def on_product(self, result: Tensor, *_: Any) -> Tensor:
        return self._note(result)

    def on_kernel(self, result: Any, *_: Any, **__: Any) -> Any:
        return self._note(result)


@contextmanager
def attending_modules(model: nn.Module) -> Iterator[list[tuple[nn.Module, ...]]]:
    """Within this context the modules that were running, from the outermost, stand in the list for every attention."""
    running: list[nn.Module] = []
    whose = _Whose(running)

    def on_leaving(*_: Any) -> None:  # what a hook returns would take the place of the result
        running.pop()

    hooks = [module.register_forward_pre_hook(lambda module, _: running.append(module)) for module in model.modules()]
    hooks += [module.register_forward_hook(on_leaving, always_call=True) for module in model.modules()]
    try:
        with whose:
            yield whose.found
    finally:
        for hook in hooks:
            hook.remove()
