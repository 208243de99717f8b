"""Follow the output of a softmax to its product with values, in any PyTorch code."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from identiformer.models.replica import hooked

PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
KERNELS = {"scaled_dot_product_attention", "multi_head_attention_forward"}


class ProductsOfSoftmax(TorchFunctionMode, ABC):
    """While active, calls `on_product` and `on_kernel` for each product with attention weights, and uses what they return."""

    def __init__(self) -> None:
        super().__init__()
        self._scores: Tensor | None = None
        self._weights: dict[int, Tensor] = {}  # by id: the output of the last softmax, and tensors derived from it

    @abstractmethod
    def on_product(self, result: Tensor, equation: str, scores: Tensor, weights: Tensor, values: Tensor, /) -> Tensor:
        """A product of softmax(scores), perhaps cast, masked or reshaped, with values; `equation` is that of an einsum."""

    @abstractmethod
    def on_kernel(self, result: Tensor, *arguments: Any, **named: Any) -> Tensor:
        """A call of one of torch's attention functions with these arguments."""

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
            if self._scores is not None and id(left) in self._weights and len(right) == 1:
                return self.on_product(result, equation, self._scores, left, right[0])
        elif isinstance(result, Tensor) and any(id(value) in self._weights and value.numel() == result.numel() for value in args):
            self._weights[id(result)] = result
        return result


class _AttendingModules(ProductsOfSoftmax):
    """Notes which modules are running whenever attention is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[nn.Module] = []
        self.attending: list[tuple[nn.Module, ...]] = []

    def _note(self, result: Any) -> Any:
        names = [type(module).__name__.lower() for module in self.running]
        # A softmax that mixes experts or streams is not attention, and a pooling head on the last layer is not a layer.
        if any("att" in name for name in names) and not any("pool" in name for name in names):
            self.attending.append(tuple(self.running))
        return result

    def on_product(self, result: Tensor, *_: Any) -> Tensor:
        return self._note(result)

    def on_kernel(self, result: Any, *_: Any, **__: Any) -> Any:
        return self._note(result)

    def on_leaving(self, *_: Any) -> None:  # returns None: any other value would replace the module's result
        self.running.pop()


@contextmanager
def attending_modules(model: nn.Module) -> Iterator[list[tuple[nn.Module, ...]]]:
    """List, for every computation of attention in this context, the modules that are running, outermost first."""
    mode = _AttendingModules()
    entering = hooked(model.modules(), lambda module, _: mode.running.append(module), before=True)
    with entering, hooked(model.modules(), mode.on_leaving, always_call=True), mode:
        yield mode.attending
