"""What an example knows about its text: labels, evidence and answers."""

import pytest

from identiformer.errors import InputError
from identiformer.texts import Example, corpus_hash


def test_evidence_label_and_answer_change_the_hash_only_where_they_are_present():
    bare = Example("Her boats have left.")
    known = [
        Example(bare.text, label="POS"),
        Example(bare.text, evidence=((4, 9),)),
        Example(bare.text, evidence=((4, 9), (10, 14))),
        Example(bare.text, answer=(4, 9)),
    ]
    assert len({corpus_hash([example]) for example in (bare, *known)}) == 5
    # The hash of a corpus without evidence, as it was before examples could have any.
    assert corpus_hash([Example("a"), Example("b", "c")]) == (
        "sha256:ed6000c6dcfebd1cd712f3e55f1055f8fef9e8f8502ca2d33635b27b3e726269"
    )


@pytest.mark.parametrize("span", [(4, 4), (9, 4), (0, 21), (-1, 3), (True, 2)])
def test_spans_outside_the_text_are_rejected(span):
    with pytest.raises(InputError, match="expected characters of the text"):
        Example("Her boats have left.", evidence=(span,))
    with pytest.raises(InputError, match="as answer of an example"):
        Example("Her boats have left.", answer=span)
