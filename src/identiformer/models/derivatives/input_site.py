"""Find where the vectors of the input tokens enter a model, by running it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.families import CRASH_FORWARD_MODE
from identiformer.models.derivatives.input_function import Entry, differentiable, differentiable_run, hidden_states_of, with_input

INPUTS = ("before", "after")

FEW = 4
"""Tokens on which a model is tried."""


def find_entry(network: Any, config: Any, inputs: Mapping[str, Any], block: nn.Module, where: str) -> Entry:
    """Run a model and find where its input vectors stand, before or after the LayerNorm of its embeddings.

    block: the first of the model's blocks; what it reads is what has passed the embeddings.
    """
    if where not in INPUTS:
        raise InputError(f"expected the input 'before' or 'after' the embedding LayerNorm, got {where!r}.")
    family = config.model_type
    if family in CRASH_FORWARD_MODE:
        raise UnsupportedModelError(f"torch's forward differentiation crashes on the {family} family; it cannot be attributed.")
    seen: dict[nn.Module, Tensor] = {}

    def on_input(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = arguments[0] if arguments else named.get("hidden_states")
        if block not in seen and isinstance(given, Tensor):
            seen[module] = given.detach()

    doors = {module for module in network.modules() if "norm" in type(module).__name__.lower()} | {block}
    hooks = [module.register_forward_pre_hook(on_input, with_kwargs=True) for module in doors]
    try:
        with differentiable_run(network, lambda call: None):
            result = network(**inputs, output_hidden_states=True)
    finally:
        for hook in hooks:
            hook.remove()
    states = hidden_states_of(result)
    if block not in seen or not states or not _is_a_vector_a_position(seen[block], states[-1]):
        raise UnsupportedModelError(
            f"the {family} family gives no hidden vector a position from one input vector a position; it cannot be attributed."
        )
    _refuse_numbers_that_are_none(states)
    order = list(seen)
    normed = len(order) > 1 and _is_a_vector_a_position(seen[order[-2]], states[-1])
    before = order[-2] if normed else block
    door = before if where == "before" else block
    widths = tuple(state.shape[-1] for state in states[1:])
    entry = Entry(network, config, dict(inputs), door, False, _flat(seen[door]), widths)
    if not _embeddings_pass_by(entry):
        return entry
    if door is not before:
        raise UnsupportedModelError(
            f"the {family} family feeds its embeddings past their LayerNorm to later layers too; expected the input 'before' it."
        )
    embedding = embedding_of(network)
    assert embedding is not None
    return replace(entry, door=embedding, behind=True, point=_flat(_given_by(embedding, network, inputs)))


def _is_a_vector_a_position(vectors: Tensor, states: Tensor) -> bool:
    """Whether these are vectors of one text's positions, as its states are; some families have the position's axis first."""
    return vectors.ndim == 3 and 1 in vectors.shape[:2] and vectors.shape[0] * vectors.shape[1] == states.shape[1]


def _flat(vectors: Tensor) -> Tensor:
    return vectors.reshape(-1, vectors.shape[-1])


def _embeddings_pass_by(entry: Entry) -> bool:
    """Whether what the tokens are embedded as reaches the layers in other ways than by the door, on the first tokens of a text.

    So it does where later layers are fed the embeddings anew (Zamba), or vectors made of them (Gemma 4).
    """
    embedding = embedding_of(entry.network)
    if "input_ids" not in entry.inputs or embedding is None:
        return False
    embedded: list[Tensor] = []

    def on_embedding(_: nn.Module, __: tuple[Any, ...], given: Any) -> Any:
        if not isinstance(given, Tensor):  # I-BERT gives a scale too
            return given
        embedded.append(given.detach().requires_grad_())
        return embedded[-1].clone()  # some go on with it in place

    def last_states() -> Tensor:
        with differentiable_run(entry.network, lambda call: None), torch.enable_grad():
            inputs = {name: tensor[:, :FEW] for name, tensor in entry.inputs.items()}
            return hidden_states_of(entry.network(**inputs, output_hidden_states=True))[-1]

    closed = entry.door.register_forward_pre_hook(
        lambda _, arguments, named: with_input(arguments, named, Tensor.detach), with_kwargs=True
    )
    watched = embedding.register_forward_hook(on_embedding)
    try:
        states = differentiable(entry, last_states)
    finally:
        closed.remove()
        watched.remove()
    with torch.enable_grad():
        gradients = torch.autograd.grad(states.sum(), embedded, allow_unused=True) if embedded and states.requires_grad else ()
    return any(gradient is not None for gradient in gradients)


def embedding_of(network: Any) -> nn.Module | None:
    """The module that gives tokens their vectors, where a network has one."""
    try:
        return network.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None


def _given_by(module: nn.Module, network: Any, inputs: Mapping[str, Any]) -> Tensor:
    """What a module first gives as a network runs."""
    given: list[Tensor] = []
    hook = module.register_forward_hook(lambda _, __, result: given.append(result.detach()))
    try:
        with differentiable_run(network, lambda call: None):
            network(**inputs, output_hidden_states=True)
    finally:
        hook.remove()
    return given[0]


def _refuse_numbers_that_are_none(states: tuple[Tensor, ...]) -> None:
    for layer, state in enumerate(states):
        if not bool(state.isfinite().all()):
            raise InputError(f"expected finite hidden states, got NaN or infinity at layer {layer}; check the model's weights.")


def block_of(network: Any, site: str) -> nn.Module:
    """The repeated module that holds an attention, by the latter's path: its own ends at the first number."""
    return network.get_submodule(_block_path(network, site))


def first_block_of(network: Any, site: str) -> nn.Module:
    """The first of the repeated modules one of which holds an attention; in hybrids the first do not attend."""
    return network.get_submodule(f"{_block_path(network, site).rpartition('.')[0]}.0")


def _block_path(network: Any, site: str) -> str:
    names = site.split(".")
    for depth, name in enumerate(names, 1):
        if name.isdigit():
            return ".".join(names[:depth])
    raise UnsupportedModelError(f"the {network.config.model_type} family has no numbered layers; it cannot be attributed.")
