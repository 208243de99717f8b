"""Where the weights of a model go: one device, or a map that spreads them over devices, memory and disk."""

from collections.abc import Mapping

import torch
from torch import nn

from identiformer.errors import InputError, require_package
from identiformer.models.loading.checks import DISK, SPREADS, device_map_error

Device = str | int | torch.device


def check_device(device: Device) -> torch.device:
    """The device, if torch can use it here."""
    try:
        chosen = torch.device(device)
        torch.ones(1, device=chosen).item()  # tensors on the meta device hold no numbers
    except Exception:  # what torch raises depends on the device
        raise InputError(f"expected a device that torch can use here, such as cpu, got {str(device)!r}.") from None
    return chosen


def check_device_map(device_map: str | Mapping[str, Device]) -> str | dict[str, Device]:
    """A device map as transformers takes it, if accelerate is installed and every device in it can be used here."""
    require_package("accelerate", "large", "device maps need the package accelerate")
    if isinstance(device_map, str) and device_map in SPREADS:
        return device_map
    entries: dict[str, Device] = {"": device_map} if isinstance(device_map, str) else dict(device_map)
    for part, device in entries.items():
        if device == DISK:
            continue
        try:
            check_device(device)
        except InputError:
            raise device_map_error(device, f" for {part}" if part else "") from None
    return entries


def complete_map(device_map: dict[str, Device], network: nn.Module) -> dict[str, Device]:
    """A device map with an entry for every part of a network, which may be on torch's meta device.

    accelerate does not take an entry for all other parts, "", next to those of some parts.
    """
    names = {name for name, _ in network.named_modules()} | {name for name, _ in network.named_parameters()}
    unknown = sorted(device_map.keys() - names)
    if unknown:
        parts = ", ".join(sorted({".".join(name.split(".")[:2]) for name, _ in network.named_parameters()}))
        raise InputError(f"expected parts of {type(network).__name__} in the device map, such as {parts}, got {unknown[0]!r}.")
    complete: dict[str, Device] = {}

    def place(path: str, part: nn.Module | None) -> None:
        if path and path in device_map:
            complete[path] = device_map[path]
        elif part is not None and any(key.startswith(f"{path}." if path else "") for key in device_map if key):
            for name, child in [*part.named_children(), *part.named_parameters(recurse=False)]:
                place(f"{path}.{name}" if path else name, child if isinstance(child, nn.Module) else None)
        elif "" in device_map:
            complete[path] = device_map[""]
        else:
            raise InputError(f"expected a device for every part in the device map, got none for {path}; add '' for all others.")

    place("", network)
    return complete
