"""How a language model answers a text before its attention is measured. Imported without torch, to read stored settings."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from identiformer.errors import InputError

if TYPE_CHECKING:
    from identiformer.models.generation.answer import Answer
    from identiformer.models.model import Model

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
        if not 1 <= self.max_new_tokens < 2**31:
            raise InputError(f"expected at least 1 new token, and at most {2**31 - 1}, got {self.max_new_tokens}.")

    @classmethod
    def of(cls, chat: bool, system: str | None, generate: int | None) -> "Generation | None":
        """The settings for the options of a command; None if texts are read as they are."""
        if generate is None and not chat and system is None:
            return None
        return cls(chat, NEW_TOKENS if generate is None else generate, system)

    def answer(self, model: "Model", text: str) -> "Answer":
        """What the model writes after a text; the same each time."""
        return model.generate(text, **asdict(self))

    def check(self, model: "Model") -> None:
        """Raise, with the reason, if a model cannot write answers with these settings to any text."""
        from identiformer.models.generation.generate import require_language_model
        from identiformer.models.generation.prompts import render

        require_language_model(model)
        render(model.tokenizer, "Hello.", self.system, self.chat)
