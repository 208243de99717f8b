"""Whether a tokenizer can read a text, knows its words, and belongs to the model."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from identiformer.errors import InputError, ModelWarning
from identiformer.models.loading.library_errors import one_sentence


def tokenize(tokenizer: Any, text: str, pair: str | None = None, **options: Any) -> Any:
    """What a tokenizer makes of a text or a pair; one from a broken file can fail on some texts only."""
    with one_sentence("the tokenizer cannot read a text"):
        return tokenizer(text, pair, verbose=False, **options)


def warn_of_unknown_tokens(tokenizer: Any, texts: Iterable[Sequence[int]]) -> None:
    """Warn if more than half of the tokens of a text are unknown, special ones aside.

    texts: the token ids of each. A tokenizer whose unknown token also begins, ends or pads texts, as GPT-2's, knows all tokens.
    """
    unknown = tokenizer.unk_token_id
    roles = ("bos", "eos", "sep", "cls", "pad", "mask")
    if unknown is None or unknown in [getattr(tokenizer, f"{role}_token_id", None) for role in roles]:
        return
    special = {*tokenizer.all_special_ids} - {unknown}
    for ids in texts:
        content = [token == unknown for token in ids if token not in special]
        if 2 * sum(content) > len(content):
            # The same words for every text: Python shows a warning once.
            warnings.warn(
                f"more than half of the tokens of a text are unknown to the tokenizer, so the model reads {tokenizer.unk_token} "
                "in their place; check that the tokenizer belongs to the model, and that it knows the language.",
                ModelWarning,
                stacklevel=2,
            )
            return


def check_range(network: Any, tokenizer: Any, texts: Iterable[Sequence[int]]) -> None:
    """Reject token ids that a network has no embedding for."""
    rows, largest = _rows(network), max(map(max, texts), default=0)
    if rows is not None and largest >= rows:
        raise InputError(
            f"expected token ids below {rows}, which is how many embeddings {type(network).__name__} has, got {largest} for "
            f"{tokenizer.convert_ids_to_tokens(largest)!r}; load the tokenizer that belongs to the model."
        )


def _rows(network: Any) -> int | None:
    """How many tokens a network has embeddings for; None where it has no table with one row per token."""
    try:
        table = network.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None
    return table.num_embeddings if isinstance(table, nn.Embedding) else None
