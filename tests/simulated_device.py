"""A device `cuda` that computes with real numbers on a machine without one.

torch's FakeTensorMode knows shapes and devices but no numbers, so it stops at the first branch on a value. Tensors of this device
hold their numbers in main memory, and every operation checks that its tensors are on one device, as a real accelerator would.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("cuda:0")
aten = torch.ops.aten
COPIES = (aten.copy_.default, aten._to_copy.default)
INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)


class DeviceTensor(Tensor):
    """A tensor that reports the device `cuda:0`."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "DeviceTensor":
        # To torch it is a meta tensor, because a build for processors has nothing that could guard another device.
        with no_dispatch():  # else it would become a DeviceTensor itself
            shape = torch.empty_strided(numbers.shape, numbers.stride(), dtype=numbers.dtype, device="meta")
        tensor = Tensor._make_subclass(cls, shape, dispatch_device=True, device_for_backend_keys=DEVICE)
        tensor.numbers = numbers
        return tensor

    @property
    def device(self) -> torch.device:
        return DEVICE

    @property
    def is_meta(self) -> bool:
        return False

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("can't convert a tensor on cuda:0 to numpy; copy it to main memory first.")
        return self.numbers.detach().numpy()

    def __getitem__(self, index: Any) -> Tensor:
        return super().__getitem__(_without_lists(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_without_lists(index), value)

    def data_ptr(self) -> int:
        return self.numbers.data_ptr()

    def tolist(self) -> Any:
        return self.numbers.tolist()

    def __repr__(self, **_: Any) -> str:
        return f"on {DEVICE}: {self.numbers}"

    @classmethod
    def __torch_dispatch__(cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(function, args, kwargs or {})


class SimulatedDevice(TorchDispatchMode):
    """Run operations on `DeviceTensor`s; also those that make a tensor on the device."""

    _mode_key = torch._C._TorchDispatchModeKey.FAKE  # torch then does not look for a real device

    def __enter__(self) -> "SimulatedDevice":
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(list, device=...) then copies instead of allocating there
        return super().__enter__()

    def __exit__(self, *details: Any) -> None:
        torch._C._set_only_lift_cpu_tensors(False)
        super().__exit__(*details)

    def __torch_dispatch__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(function, args, kwargs or {})


def to_device(value: Any) -> Any:
    """Copy the tensors in a value to the device."""
    return tree_map(lambda leaf: DeviceTensor(leaf.clone()) if isinstance(leaf, Tensor) else leaf, value)


def to_memory(value: Any) -> Any:
    """Copy the tensors in a value back to main memory."""
    return tree_map(lambda leaf: leaf.numbers if isinstance(leaf, DeviceTensor) else leaf, value)


def _compute(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    on_device = [isinstance(tensor, DeviceTensor) for tensor in tensors]
    if function is torch.ops.prim.device.default:
        return torch.device("meta") if on_device[0] else torch.device("cpu")
    target = kwargs.get("device")
    result_on_device = any(on_device) if target is None else torch.device(target).type != "cpu"
    if function in COPIES:
        result_on_device = on_device[0] if target is None else result_on_device
    elif function in INDEXING:  # an index may be in main memory, the numbers may not
        if on_device[0] != any(on_device):
            raise RuntimeError(f"{function}: indices on cuda:0 of a tensor in main memory")
    elif any(on_device) and any(tensor.ndim and not there for tensor, there in zip(tensors, on_device, strict=True)):
        raise RuntimeError(f"{function}: expected all tensors on one device, got some on cuda:0 and some in main memory")
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    kwargs.pop("pin_memory", None)
    result = function(*to_memory(args), **to_memory(kwargs))
    if not result_on_device:
        return result
    same = {id(tensor.numbers): tensor for tensor in tensors if isinstance(tensor, DeviceTensor)}
    # An operation in place returns its argument, so it must return the same tensor.
    return tree_map(lambda leaf: _wrap(leaf, same), result)


def _wrap(leaf: Any, same: dict[int, DeviceTensor]) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    return same[id(leaf)] if id(leaf) in same else DeviceTensor(leaf)


def _without_lists(index: Any) -> Any:
    """An index with tensors in place of lists, which torch would otherwise copy to a device of which it has none."""
    if isinstance(index, tuple):
        return tuple(map(_without_lists, index))
    return torch.tensor(index) if isinstance(index, list) else index
