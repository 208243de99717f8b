"""The text of Figure 6."""

from dataclasses import dataclass

from identiformer.texts import PASSAGE


@dataclass(frozen=True)
class Passage:
    """A text or a pair, and the sentence of it whose rows are shown; all are without one."""

    text: str = PASSAGE
    pair: str | None = None
    shown: str | None = None

    @property
    def embedded(self) -> bool:
        return self == Passage()
