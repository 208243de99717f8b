"""BigBird: on a short text it attends to everything; on a long one to blocks, some of them drawn by chance for each head.

On its first short text transformers replaces the blocks for good, also for long texts to come. Here the model is given its full
attention only while it is recorded. Blocks are refused: heads that see different keys have no visibility in common.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Handover


@contextmanager
def keeping_its_blocks(network: Any) -> Iterator[None]:
    """Whatever a run within this context makes of a network's attention, afterwards it is as it was."""
    changed = [module for module in network.modules() if getattr(module, "attention_type", "") == "block_sparse"]
    blocks = [(module, module.self) for module in changed if hasattr(module, "self")]
    try:
        yield
    finally:
        for module in changed:
            module.attention_type = "block_sparse"
        for module, own in blocks:
            module.self = own


@contextmanager
def full_on_short_texts(network: Any, _: Handover) -> Iterator[None]:
    """Within this context the network attends to everything, and refuses texts on which it would not."""
    if network.attention_type != "block_sparse":
        yield
        return
    config = network.config
    longest = (5 + 2 * config.num_random_blocks) * config.block_size

    def on_text(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = next(each for each in (*arguments, named.get("input_ids"), named.get("inputs_embeds")) if each is not None)
        if given.shape[1] > longest:
            raise UnsupportedModelError(
                f"expected at most {longest} tokens, up to which {type(network).__name__} attends to everything, got "
                f"{given.shape[1]}; beyond that each head attends to other blocks, which cannot be recorded."
            )

    with keeping_its_blocks(network):
        hook = network.register_forward_pre_hook(on_text, with_kwargs=True)
        try:
            network.set_attention_type("original_full")
            yield
        finally:
            hook.remove()
