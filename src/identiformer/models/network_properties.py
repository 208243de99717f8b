"""What is known of a network without running it: its weights, and how long a text it takes."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from identiformer.models.offloaded import stored_tensors


def revision_of(network: Any) -> str:
    """The commit of a network on the hub, or a hash of its weights.

    The hash too where adapters or a quantization, of which the commit says nothing, may have changed the weights since.
    """
    commit = getattr(network.config, "_commit_hash", None)
    changed = hasattr(network, "peft_config") or getattr(network.config, "quantization_config", None) is not None
    if commit and not changed:
        return str(commit)
    digest = hashlib.sha256()
    for name, parameter in stored_tensors(network):
        digest.update(name.encode())
        for stored in _stored(parameter.detach()):
            digest.update(stored.cpu().flatten().view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"


def _stored(tensor: Tensor) -> list[Tensor]:
    """The plain tensors that hold a tensor; several for one that is quantized by torchao."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()  # pyright: ignore[reportAttributeAccessIssue]
    return [stored for name in names for stored in _stored(getattr(tensor, name))]


def most_positions(backbone: Any) -> int | None:
    """The largest number of tokens that a network takes; None where it has no limit."""
    limit = getattr(backbone.config, "max_position_embeddings", None) or getattr(backbone.config, "n_positions", None)
    table = getattr(getattr(backbone, "embeddings", None), "position_embeddings", None)
    if isinstance(table, torch.nn.Embedding) and table.padding_idx is not None:
        # RoBERTa and its relatives reserve the first positions, up to that of the padding token.
        limit = table.num_embeddings - table.padding_idx - 1
    return limit if isinstance(limit, int) and limit > 0 else None
