"""The text of Figure 6."""

from dataclasses import dataclass

from identiformer.errors import InputError
from identiformer.texts import PASSAGE


@dataclass(frozen=True)
class Passage:
    """A text or a pair, and the sentence of it whose rows are shown; all are without one."""

    text: str = PASSAGE
    pair: str | None = None
    shown: str | None = None

    def __post_init__(self) -> None:
        if self.shown is not None and not any(self.shown in text for text in (self.text, self.pair or "")):
            raise InputError(f"expected a sentence of the passage to show, but {self.shown!r} is not in it.")

    @property
    def embedded(self) -> bool:
        return self == Passage()
