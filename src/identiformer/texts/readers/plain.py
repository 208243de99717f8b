"""Plain text: an example a line, or a paragraph."""

from collections.abc import Iterator

from identiformer.texts.example import Example
from identiformer.texts.readers.lines import Lines, Mark


class LineReader:
    """An example for every line that is not blank."""

    def examples(self, lines: Lines) -> Iterator[tuple[Example, Mark]]:
        for line in lines:
            if text := line.strip():
                yield Example(text), lines.mark


class ParagraphReader:
    """An example for all lines up to the next blank one, joined by a space."""

    def examples(self, lines: Lines) -> Iterator[tuple[Example, Mark]]:
        paragraph: list[str] = []
        for line in lines:
            if text := line.strip():
                paragraph.append(text)
            elif paragraph:
                yield Example(" ".join(paragraph)), lines.mark
                paragraph = []
        if paragraph:
            yield Example(" ".join(paragraph)), lines.mark
