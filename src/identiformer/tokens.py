"""The tokens of a text, and the words that they are pieces of."""

from dataclasses import dataclass

from identiformer.errors import InputError


@dataclass(frozen=True)
class Word:
    """One word of a text and the tokens that it was split into."""

    segment: int
    """0 for a word of the first text, 1 for one of the second."""
    positions: tuple[int, ...]
    text: str
    """Its tokens joined, without the "##" of WordPiece."""
    span: tuple[int, int] | None
    """Its first character in the text and the one after its last; None where the tokenizer does not report them."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text or pair of texts, as the model reads them.

    Parameters
    ----------
    texts, ids : tuples of str and of int
    special : tuple of bool
        Whether a token was added by the tokenizer, such as [CLS] and [SEP].
    segments : tuple of int
        0 for the first text, 1 for the second of a pair.
    word_ids : tuple of int or None, optional
        Index of each token's word within its text, None for special tokens; None where the tokenizer does not report words.
    spans : tuple of (int, int), optional
        The characters of each token in its text, from and up to; None where the tokenizer does not report them.
    span_names : tuple of str, optional
        The span of a chat or prompt that each token is in, such as user or assistant; None for a text.

    Examples
    --------
    >>> tokens = Tokens(("[CLS]", "un", "##able"), (101, 4895, 3085), (True, False, False), (0, 0, 0), (None, 0, 0))
    >>> tokens.word_labels()
    ['[CLS] 0', 'unable 1', 'unable 1']
    """

    texts: tuple[str, ...]
    ids: tuple[int, ...]
    special: tuple[bool, ...]
    segments: tuple[int, ...]
    word_ids: tuple[int | None, ...] | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    span_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def regular_ids(self) -> tuple[int, ...]:
        """The ids of the tokens that are not special."""
        return tuple(token for token, special in zip(self.ids, self.special, strict=True) if not special)

    def words(self) -> list[Word]:
        """The words of all texts in order, without special tokens."""
        if self.word_ids is None:
            raise InputError("this tokenizer does not report which tokens make up a word; use a fast one, or label the tokens.")
        positions: dict[tuple[int, int], list[int]] = {}
        for position, (segment, word) in enumerate(zip(self.segments, self.word_ids, strict=True)):
            if word is not None:
                positions.setdefault((segment, word), []).append(position)
        words = []
        for (segment, _), members in positions.items():
            text = "".join(self.texts[position].removeprefix("##") for position in members)
            span = None if self.spans is None else (self.spans[members[0]][0], self.spans[members[-1]][1])
            words.append(Word(segment, tuple(members), text, span))
        return words

    def holding(self, character: int) -> int | None:
        """The first token of the first text that holds a character; None if the text was truncated before it, or is not known."""
        for position, span in enumerate(self.spans or ()):
            if span[0] <= character < span[1] and not self.special[position] and self.segments[position] == 0:
                return position
        return None

    def word_labels(self) -> list[str]:
        """For each token its whole word, followed by the position of the word's first token."""
        labels = [f"{text.removeprefix('##')} {position}" for position, text in enumerate(self.texts)]
        for word in self.words():
            for position in word.positions:
                labels[position] = f"{word.text} {word.positions[0]}"
        return labels
