"""The texts of a study: pairs of MRPC, joined where heads are wide."""

from collections.abc import Iterator
from pathlib import Path

import identiformer as idf
from identiformer.models import Model
from identiformer.texts import Example

WIDTH = 32
"""Width of a head for which one pair, of about 50 tokens, is long enough that rows have alternatives."""


def read_texts(model: Model, data: Path, pairs: int) -> Iterator[Example]:
    """The first pairs of MRPC's development set, one per text; several per text for models with wider heads.

    A row over no more keys than its head is wide has no free weight, and its effective attention is the raw attention: such
    texts would show nothing. Joined pairs are one text of two sentences per line.
    """
    config = model.backbone.config
    per_text = -(-(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads) // WIDTH)
    examples = list(idf.read_corpus(data / "MRPC" / "dev.tsv", pairs))
    for first in range(0, len(examples) - per_text + 1, per_text):
        joined = examples[first : first + per_text]
        yield joined[0] if per_text == 1 else Example("\n".join(f"{pair.text} {pair.pair}" for pair in joined))
