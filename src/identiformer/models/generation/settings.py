"""How a language model answers a text before its attention is measured. Imported without torch, to read stored settings."""

from dataclasses import dataclass

from identiformer.errors import InputError
from identiformer.options import check_new_tokens

NEW_TOKENS = 60
"""The largest number of tokens to write, unless another is chosen."""


@dataclass(frozen=True)
class Generation:
    """The settings on which a greedy answer to a text depends, besides the model."""

    chat: bool = False
    max_new_tokens: int = NEW_TOKENS
    system: str | None = None

    def __post_init__(self) -> None:
        if self.system is not None and not self.chat:
            raise InputError("expected a chat for a system message, got a plain text; use chat=True (--chat).")
        check_new_tokens(self.max_new_tokens)

    @classmethod
    def of(cls, chat: bool, system: str | None, generate: int | None) -> "Generation | None":
        """The settings for the options of a command; None if texts are read as they are."""
        if generate is None and not chat and system is None:
            return None
        return cls(chat, NEW_TOKENS if generate is None else generate, system)
