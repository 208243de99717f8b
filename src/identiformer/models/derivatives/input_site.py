"""Locate the input vectors x of a model by running it: what its embeddings produce, before their LayerNorm if they have one.

Token identifiability and Hidden Token Attribution are both about these vectors, and both locate them here.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.families import CRASH_FORWARD_MODE
from identiformer.models.attention.sites import backbone_of
from identiformer.models.blocks.module_states import hidden_states_of
from identiformer.models.derivatives.input_function import InputFunction, differentiable, differentiable_run, with_input
from identiformer.models.encoding.text import Batch
from identiformer.models.linear_maps import in_float32
from identiformer.models.offloaded import device_of
from identiformer.models.replica import hooked, replica_of
from identiformer.names import INPUT_SITES, check_name

SHORT = 4
"""Tokens that are enough to see whether embeddings reach later layers directly."""


@contextmanager
def first_inputs(modules: Iterable[nn.Module], last: nn.Module | None = None) -> Iterator[dict[nn.Module, Tensor]]:
    """Record the first input of each of these modules, in the order of their calls, until the last one is called."""
    inputs: dict[nn.Module, Tensor] = {}

    def on_input(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        vectors = arguments[0] if arguments else named.get("hidden_states")
        if last not in inputs and isinstance(vectors, Tensor) and vectors.is_floating_point():
            inputs.setdefault(module, vectors.detach())

    with hooked(modules, on_input, before=True, with_kwargs=True):
        yield inputs


@contextmanager
def inputs_up_to(network: nn.Module, block: nn.Module) -> Iterator[dict[nn.Module, Tensor]]:
    """Record the first inputs of the first block and of the normalizations that run before it."""
    norms = {module for module in network.modules() if "norm" in type(module).__name__.lower()}
    around = {module for module in norms if block in module.modules()}  # RobertaPreLayerNormEncoder
    with first_inputs({*norms, block} - (around - {block}), block) as inputs:
        yield inputs


def embedding_norm(inputs: Mapping[nn.Module, Tensor]) -> nn.Module | None:
    """Return the normalization of the embeddings, whose input is x; None if x is the input of the first block.

    It is the last normalization before the first block, if it is fed vectors. inputs: see `inputs_up_to`.
    """
    *norms, _ = inputs
    return norms[-1] if norms and inputs[norms[-1]].ndim == 3 else None


def find_input_function(model: Any, batch: Batch, path: str, input_site: str, task_head: bool) -> InputFunction:
    """Return the model at a text as a function of its input vectors, before or after the LayerNorm of its embeddings.

    path: that of the first attention module. Without task_head, the backbone; of an encoder-decoder, the encoder.
    """
    check_name("an input site", input_site, INPUT_SITES)
    network = in_float32(replica_of(model))
    backbone = backbone_of(network)
    block = first_block(backbone, path)
    if model.config.is_encoder_decoder:
        network = backbone.get_encoder()
    elif not task_head:
        network = backbone
    inputs = {name: tensor.to(device_of(model)) for name, tensor in batch.inputs.items()}
    # A mask of ones leads to checks of numbers that torch cannot trace. Without a mask, however, some families (XLM, FlauBERT)
    # treat every token as padding whose id is that of the padding token.
    if getattr(backbone.config, "pad_token_id", None) not in batch.encoder[0].ids:
        inputs.pop("attention_mask", None)
    config = getattr(network, "config", backbone.config)  # FSMT's encoder has none
    family = config.model_type
    if family in CRASH_FORWARD_MODE:
        raise UnsupportedModelError(f"torch's forward differentiation crashes on the {family} family; it cannot be attributed.")
    with inputs_up_to(network, block) as recorded, differentiable_run(network, lambda call: None):
        states = hidden_states_of(network(**inputs, output_hidden_states=True))
    if block not in recorded or not states or not _has_one_vector_per_position(recorded[block], states[-1]):
        raise UnsupportedModelError(
            f"the {family} family does not map one input vector per position to one hidden vector per position; it cannot be "
            "attributed."
        )
    for layer, state in enumerate(states):
        require_finite(state, layer)
    norm = embedding_norm(recorded)
    if norm is not None and not _has_one_vector_per_position(recorded[norm], states[-1]):
        norm = None  # it normalizes frames or patches that are then pooled
    site = block if norm is None or input_site == "after" else norm
    x = recorded[site].reshape(-1, recorded[site].shape[-1])
    positions = len(batch.encoder[0])
    if len(x) != positions:
        raise UnsupportedModelError(
            f"the {family} family pools its {positions} positions to {len(x)} for its layers; it cannot be attributed."
        )
    widths = tuple(state.shape[-1] for state in states[1:])
    function = InputFunction(network, config, dict(inputs), site, False, x, widths, positions_first=len(recorded[site]) > 1)
    embedding = embedding_of(network)
    if embedding is None or not _bypasses_site(embedding, function):
        return function
    if norm is not None and input_site == "after":
        raise UnsupportedModelError(
            f"the {family} family feeds its embeddings past their LayerNorm to later layers too; expected the input 'before' it."
        )
    return replace(function, site=embedding, at_output=True)


def _has_one_vector_per_position(vectors: Tensor, states: Tensor) -> bool:
    """Whether one text has as many vectors as hidden states; in some families positions are the first axis."""
    return vectors.ndim == 3 and 1 in vectors.shape[:2] and vectors.shape[:2].numel() == states.shape[1]


def require_finite(states: Tensor, layer: int) -> None:
    """Raise InputError if the hidden states of a layer are not all finite."""
    if not bool(states.isfinite().all()):
        raise InputError(f"expected finite hidden states, got NaN or infinity at layer {layer}; check the model's weights.")


def _bypasses_site(embedding: nn.Module, function: InputFunction) -> bool:
    """Whether the token embeddings reach the layers in other ways than through the site of x.

    Zamba feeds its embeddings to later layers again; Gemma 4 feeds each layer vectors computed from them. A change of x must
    then be a change of the embeddings themselves, or the derivative would miss those ways.
    """
    if "input_ids" not in function.inputs or function.site in embedding.modules():
        return False
    embedded: list[Tensor] = []

    def on_embedding(_: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
        if not isinstance(output, Tensor):  # I-BERT returns a scale too
            return output
        embedded.append(output.detach().requires_grad_())
        return embedded[-1].clone()  # some models change it in place

    def detach_input(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return with_input(arguments, named, Tensor.detach)

    def last_states() -> Tensor:
        with differentiable_run(function.network, lambda call: None), torch.enable_grad():
            inputs = {name: tensor[:, :SHORT] for name, tensor in function.inputs.items()}
            return hidden_states_of(function.network(**inputs, output_hidden_states=True))[-1]

    detaching = function.site.register_forward_pre_hook(detach_input, with_kwargs=True)
    with detaching, embedding.register_forward_hook(on_embedding):
        states = differentiable(function, last_states)
    if not embedded or not states.requires_grad:
        return False
    with torch.enable_grad():
        return any(gradient is not None for gradient in torch.autograd.grad(states.sum(), embedded, allow_unused=True))


def embedding_of(network: Any) -> nn.Module | None:
    """Return the module that maps tokens to vectors, or None if the network has none."""
    try:
        return network.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None


def block_of(network: Any, attention: str) -> nn.Module:
    """Return the block that contains an attention module, given the path of the latter."""
    return network.get_submodule(_block_path(network, attention))


def first_block(network: Any, attention: str) -> nn.Module:
    """Return the first block of the stack that contains an attention module; in hybrids the first blocks do not attend."""
    return network.get_submodule(f"{_block_path(network, attention).rpartition('.')[0]}.0")


def _block_path(network: Any, attention: str) -> str:
    """Return the path up to its first number, or to the second where blocks are lists of layers (Funnel)."""
    names = attention.split(".")
    for depth, name in enumerate(names, 1):
        path = ".".join(names[:depth])
        if name.isdigit() and not isinstance(network.get_submodule(path), nn.ModuleList):
            return path
    raise UnsupportedModelError(f"the {network.config.model_type} family has no numbered layers; it cannot be attributed.")
