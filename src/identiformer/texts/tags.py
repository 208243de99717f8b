"""Parts of speech: the Penn tag of every token, by NLTK's averaged perceptron tagger."""

import importlib.util
from bisect import bisect_right
from functools import lru_cache
from typing import Any

from identiformer.errors import InputError, MissingPackageError
from identiformer.texts.penn_words import penn_words
from identiformer.trace import Tokens

PENN_TAGS = (
    "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$",
    "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
    "#", "$", "``", "''", "(", ")", ",", ".", ":",
)  # fmt: skip
OTHER_TAG = "other"
"""What is neither part of a word nor a special token, such as a piece that is nothing but space."""
DATA = "averaged_perceptron_tagger_eng"


def penn_tags(tokens: Tokens, text: str, pair: str | None = None) -> list[str]:
    """For each token the tag of its word; special tokens are their own tag. Figs. 26-37.

    The tagger reads the words of the text as it was written, with its capitals, and each text of a pair alone. Words are those
    that the tokenizer splits a text into before it cuts them into pieces, save that clitics and quotation marks are written
    as the treebank has them. The paper used Stanford's tagger, so tags differ here and there.

    As labels of tokens: `token_attribution(model, text, group_by=penn_tags(model.tokens(text), text))`.
    """
    if tokens.spans is None or tokens.words is None:
        raise InputError(
            "this tokenizer does not say which characters a token stands for; use a fast one, or tag tokens yourself."
        )
    spans = tokens.spans
    tags = list(tokens.texts)
    for segment, own in enumerate((text, pair)):
        places = [
            place
            for place, word in enumerate(tokens.words)
            if word is not None and not tokens.special[place] and tokens.segments[place] == segment
        ]
        if own is None or not places:
            continue
        pieces: dict[int | None, list[int]] = {}
        for place in places:
            pieces.setdefault(tokens.words[place], []).append(place)
        words = penn_words(own, [(spans[each[0]][0], spans[each[-1]][1]) for each in pieces.values()])
        found = [tag for _, tag in load_tagger().tag([word for _, word in words])]
        starts = [start for (start, _), _ in words]
        for place in places:
            piece = own[slice(*spans[place])]
            first = spans[place][0] + len(piece) - len(piece.lstrip())
            tags[place] = found[bisect_right(starts, first) - 1] if piece.strip() else OTHER_TAG
    return tags


@lru_cache
def load_tagger() -> Any:
    """NLTK's tagger, read once; its data is looked for in the folders of the variable NLTK_DATA and in NLTK's own."""
    if importlib.util.find_spec("nltk") is None:
        raise MissingPackageError("tags of words need a package; run: pip install 'identiformer[tags]'")
    from nltk.tag.perceptron import PerceptronTagger

    try:
        return PerceptronTagger()
    except LookupError:
        raise InputError(
            f"expected the data of NLTK's tagger where NLTK looks for it, but there is none; run: python -m nltk.downloader "
            f"{DATA}, or name the folder that holds taggers/{DATA} in the variable NLTK_DATA."
        ) from None
