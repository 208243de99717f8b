"""A loaded model with its tokenizer: how to run its network, what identifies it, and where it attends."""

import hashlib
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from identiformer.errors import IdentiformerError, InputError, UnsupportedModelError, first_line
from identiformer.models.attention.families import preserved_blocks
from identiformer.models.attention.sites import Site, backbone_of, discover
from identiformer.models.encoding.text import Batch, encode_one
from identiformer.models.library_output import library_versions
from identiformer.models.loading.named import NAMED
from identiformer.models.loading.sending import SentNetwork
from identiformer.models.offloaded import device_of, stored_tensors
from identiformer.models.replica import replica_of
from identiformer.options import WEIGHTS_BUDGET

PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids")
"""Endings of the names of inputs that have one entry per token."""

AnyModel = TypeVar("AnyModel", bound="LoadedModel")


class LoadedModel:
    """A network with its tokenizer, name and limits, for functions that `Model` calls. `Model` documents the parameters."""

    def __init__(
        self, network: Any, tokenizer: Any, name: str, max_length: int | None = None, memory: int = WEIGHTS_BUDGET
    ) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.name = name
        self.max_length = max_length
        self.memory = memory
        self._sites: dict[bool, list[Site]] = {}

    def limited(self: AnyModel, max_length: int) -> AnyModel:
        """The same model with a limit on the number of tokens, to which truncate=True cuts texts."""
        if max_length < 1:
            raise InputError(f"expected a largest length of at least 1 token, got {max_length}.")
        return type(self)(self.network, self.tokenizer, self.name, max_length, self.memory)

    def __getstate__(self) -> dict[str, Any]:
        network = SentNetwork.of(self.network, self.name)
        return {**{name: getattr(self, name) for name in ("tokenizer", "name", "max_length", "memory")}, "network": network}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**{**state, "network": state["network"].built()})

    def __repr__(self) -> str:
        return f"<identiformer model {self.name}: {type(self.network).__name__}>"

    @property
    def backbone(self) -> Any:
        """The network without its task head, on which attention does not depend."""
        return backbone_of(self.network)

    @property
    def positions(self) -> int | None:
        """The largest number of tokens that the model takes."""
        limits = (most_positions(self.backbone), self.max_length)
        return min((limit for limit in limits if limit is not None), default=None)

    @cached_property
    def revision(self) -> str:
        """The commit on the hub, or a hash of the weights."""
        return revision_of(self.network)

    def weights_size(self, length: int) -> int:
        """Bytes of the attention weights of all layers and heads for a text of this many tokens."""
        counts = (getattr(self.backbone.config, name, 1) for name in ("num_attention_heads", "num_hidden_layers"))
        heads, layers = (count if isinstance(count, int) else 1 for count in counts)  # a list where they differ by stage
        return layers * heads * length**2 * self.network.dtype.itemsize

    def sites(self, batch: Batch) -> list[Site]:
        """The attention sites that such inputs pass through, found by a first run on a few tokens."""
        decoding = batch.decoder is not None
        if decoding not in self._sites:
            inputs = {name: tensor[:1, :4] if name.endswith(PER_TOKEN) else tensor for name, tensor in batch.inputs.items()}
            replica = self.replica()
            first_run = partial(self._first_run, replica, inputs)
            self._sites[decoding] = discover(self.backbone, replica, first_run, self.network.config.is_encoder_decoder)
        return self._sites[decoding]

    def replica(self) -> Any:
        """The backbone of a replica, which can be hooked and changed without changing the network."""
        return backbone_of(replica_of(self.network))

    def _first_run(self, replica: Any, inputs: dict[str, Tensor]) -> Any:
        """Run the model, and report in one sentence if it needs other inputs."""
        try:
            return self.forward(replica, inputs)
        except IdentiformerError:
            raise
        except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            kind, names = type(self.backbone).__name__, ", ".join(inputs)
            raise UnsupportedModelError(f"{kind} cannot be run on {names} alone: {first_line(error)}") from error

    def forward(self, replica: Any, inputs: dict[str, Tensor], **options: Any) -> Any:
        """Run a replica of the network or of its backbone; without inputs of the decoder, only the encoder."""
        decoding = "decoder_input_ids" in inputs
        encoder_only = self.network.config.is_encoder_decoder and not decoding
        network = backbone_of(replica).get_encoder() if encoder_only else replica
        options |= {"use_cache": False} if decoding or ("input_ids" in inputs and not encoder_only) else {}
        moved = {name: tensor.to(device_of(self.network)) for name, tensor in inputs.items()}
        with preserved_blocks(network) if hasattr(self.backbone.config, "num_random_blocks") else nullcontext():
            return network(**moved, **options)

    def length(self, text: str, pair: str | None = None) -> int:
        """The number of tokens of a text without truncation; of the longer of the two texts in an encoder-decoder."""
        sides = [(text, None), (pair, None)] if self.network.config.is_encoder_decoder and pair is not None else [(text, pair)]
        return max(len(encode_one(self.tokenizer, *side)["input_ids"]) for side in sides)

    @property
    def identity(self) -> dict[str, str]:
        """What identifies the model in the provenance of results."""
        return {
            "model": self.name,
            **({"weights": NAMED[self.name].weights} if self.name in NAMED else {}),
            "revision": self.revision,
            "architecture": type(self.network).__name__,
            "dtype": str(self.network.dtype).removeprefix("torch."),
        }

    def source(self, batch: Batch, example: int, form: str) -> dict[str, str]:
        """The provenance of a trace."""
        return {**self.identity, "form": form, **batch.source(example), **library_versions()}


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
