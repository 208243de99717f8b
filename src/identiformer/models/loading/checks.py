"""Checks of a model's name and of the options it is loaded with. They need no torch, so that a mistake costs no time."""

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from identiformer.errors import InputError, ResultError, UnsupportedModelError, require_package
from identiformer.models.loading.named import cached_config, locate
from identiformer.names import DTYPES
from identiformer.typed_json import read_json

SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")
"""Maps that accelerate chooses by the memory of each device."""
DISK = "disk"
DEVICE = re.compile(r"(cpu|cuda|hip|hpu|ipu|lazy|maia|mps|mtia|npu|privateuseone|vulkan|xla|xpu)(:\d+)?")
"""Kinds of devices of torch. Plugins of torch can add others."""
IN_CONFIGURATIONS = {
    "layer": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "head": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
}
"""What configurations call the number of layers and of heads."""
IN_GGUF = {"layer": rb"\.block_count\x04\0\0\0(.{4})", "head": rb"\.attention\.head_count\x04\0\0\0(.{4})"}
"""The same in the header of a GGUF file: the end of the key, the type of a 32-bit integer, and the number."""
CANNOT_WRITE = re.compile("((?<!LMHead)(?<!DoubleHeads)Model|ForMaskedLM|Classification|ForQuestionAnswering)$")
"""Endings of networks that are certainly no language models. Of others, the loaded network says whether it can write."""
OF_IMAGES = re.compile("image|patch|channel|pixel|vision|_config$|^encoder$")
"""In entries of the configurations of vision models, or of models of several parts."""
NESTED = {"text_config", "vision_config", "is_encoder_decoder", "inner_group_num", "block_configs"}
"""Entries of a configuration that describes several stacks of layers, or layers that differ."""


def check_load(
    name: str, device: str = "cpu", device_map: object = None, dtype: str = "auto", revision: str | None = None
) -> Path | None:
    """Locate a model, and raise if there is none, or if an option is certainly wrong; torch may reject more."""
    check_dtype(dtype)
    if not is_device(device):
        raise InputError(f"expected a device that torch can use here, such as cpu, got {device!r}.")
    if device_map is not None:
        if device != "cpu":
            raise InputError("expected a device or a device map, got both; leave one out.")
        require_package("accelerate", "large", "device maps need the package accelerate")
        if isinstance(device_map, str) and device_map not in (*SPREADS, DISK) and not is_device(device_map):
            raise device_map_error(device_map)
    return locate(name, revision)


def check_dtype(dtype: object) -> None:
    """Raise unless a dtype, by name, is one to compute in."""
    if dtype not in DTYPES:
        raise InputError(f"expected auto, or a dtype to compute in ({', '.join(DTYPES[1:])}), got {dtype!r}.")


def is_device(name: str) -> bool:
    """Whether a name may be that of a device: plugins of torch bring names of their own."""
    return DEVICE.fullmatch(name) is not None or (name != "meta" and bool(entry_points(group="torch.backends")))


def device_map_error(device: object, where: str = "") -> InputError:
    """The error of a device map that names something else than a device."""
    return InputError(
        f"expected a device map of {', '.join(SPREADS)}, or devices that torch can use here (cpu, cuda:0 …) or disk, got "
        f"{str(device)!r}{where}."
    )


def check_chosen(
    name: str, path: Path | None, revision: str | None, layers: list[int] | None = None, heads: list[int] | None = None
) -> None:
    """Raise if a layer or a head is beyond those of a model, as far as its configuration alone shows how many there are."""
    for what, first, chosen in (("layer", 1, layers), ("head", 0, heads)):
        for index in chosen or ():
            count = _count(what, cached_config(name, revision) if path is None else path)
            if index < first or (count is not None and index >= first + count):
                last = "on" if count is None else f"to {first + count - 1}"
                raise InputError(f"expected a {what} from {first} {last}, got {index}.")


def check_writes(name: str, path: Path | None, revision: str | None = None) -> None:
    """Raise if a model cannot write, as far as its configuration alone shows it."""
    config = _configuration(cached_config(name, revision) if path is None else path)
    named = [network for network in config.get("architectures") or () if isinstance(network, str)]
    if named and (config.get("is_encoder_decoder") is True or CANNOT_WRITE.search(named[0])):
        raise not_a_writer(named[0])


def check_reads_images(name: str, path: Path | None, revision: str | None = None) -> None:
    """Raise if a model reads text alone, as far as its configuration alone shows it."""
    path = cached_config(name, revision) if path is None else path
    keys = _configuration(path)
    if (path is not None and path.suffix == ".gguf") or (
        isinstance(keys.get("vocab_size"), int) and not any(map(OF_IMAGES.search, keys))
    ):
        raise no_reader_of_images(name)


def no_reader_of_images(name: str) -> InputError:
    """The error of a model that does not read images."""
    return InputError(f"expected a model that reads images, got {name}; load a vision model, such as a ViT.")


def not_a_writer(network: str) -> UnsupportedModelError:
    """The error of a network that cannot write."""
    return UnsupportedModelError(f"expected a causal language model with its head, got {network}; load one, such as smollm2.")


def _count(what: str, path: Path | None) -> int | None:
    """The number of layers or heads; None if the model has to be loaded to know."""
    if path is not None and path.suffix == ".gguf":  # the gguf package would read the whole vocabulary, for seconds
        with path.open("rb") as file:
            entry = re.search(IN_GGUF[what], file.read(2**16), re.DOTALL)
        return None if entry is None else int.from_bytes(entry[1], "little")
    config = _configuration(path)
    found = [config[key] for key in IN_CONFIGURATIONS[what] if key in config]
    return found[0] if len(found) == 1 and type(found[0]) is int and found[0] > 0 and not config.keys() & NESTED else None


def _configuration(path: Path | None) -> dict[str, Any]:
    """What a model's configuration says, or that of its adapters; empty where it has to be loaded to know."""
    if path is None or path.suffix == ".gguf":
        return {}
    try:
        return read_json(path / "config.json" if path.is_dir() else path, dict[str, Any], "")
    except ResultError:  # loading will say what is wrong with it
        return {}
