"""Raw WikiText: its spacing undone, its sentences found, its articles told apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from identiformer.errors import InputError
from identiformer.texts import Article, read_wikitext
from identiformer.texts.wikipedia import sentences

# Each as people write it, and as the file has it.
FRAGMENTS = [
    ("plain", "plain"),
    ("two-part", "two @-@ part"),
    ("ready-to-use", "ready @-@ to @-@ use"),
    ("1,250,000", "1 @,@ 250 @,@ 000"),
    ("9.5%", "9 @.@ 5 %"),
    ("1939–45", "1939 – 45"),
    ("north – south", "north – south"),
    ("43 km/h;", "43 km / h ;"),
    ("(often)", "( often )"),
    ("[sic]", "[ sic ]"),
    ('"so called"', '" so called "'),
    ('"Hey",', '" Hey " ,'),
    ("the crew's", "the crew 's"),
    ("the ships' guns", "the ships ' guns"),
    ("a 'perfect' one", "a ' perfect ' one"),
    ("didn't", "did n't"),
    ("can't", "can 't"),
    ("$3.5 million", "$ 3 @.@ 5 million"),
    ("Dr. No", "Dr. No"),
    ("it was...", "it was ..."),
]
CLOSED = [(".", " ."), ("?", " ?"), ("!", " !"), (".)", " . )"), ('."', ' . "')]


@given(some.lists(some.tuples(some.lists(some.sampled_from(FRAGMENTS), min_size=1, max_size=6), some.sampled_from(CLOSED))))
def test_spacing_is_restored_and_sentences_are_split(parts):
    opening = {".)": ("(", "( "), '."': ('"', '" ')}
    written, spaced = [], []
    for fragments, (end, spaced_end) in parts:
        before = opening.get(end, ("", ""))
        quoted = end == '."'
        kept = [fragment for fragment in fragments if not (quoted and '"' in fragment[0])] or [("plain", "plain")]
        written.append(before[0] + " ".join(fragment[0] for fragment in kept) + end)
        spaced.append(before[1] + " ".join(fragment[1] for fragment in kept) + spaced_end)
    assert sentences(" ".join(spaced)) == written


@given(some.lists(some.sampled_from([*"abs.,;:!?()[]\"'/–$%-", "n't", "'s", "10", "..."]), max_size=20))
def test_no_character_is_lost(tokens):
    assert "".join("".join(sentences(" ".join(tokens))).split()) == "".join(tokens)


def test_marks_within_a_sentence_do_not_end_it():
    assert sentences("He met Mr. T. S. Eliot at 9 @.@ 30 p.m. in the U.S. and left") == [
        "He met Mr. T. S. Eliot at 9.30 p.m. in the U.S. and left"
    ]
    assert sentences("") == []


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_articles_have_a_title_and_no_headings(tmp_path):
    one = " = Kirby 's Ball = \n \n One . Two , then \n = = Play = = \n = = = A = B = = = \n Three . \n"
    assert read_wikitext(write(tmp_path / "wiki.raw", one + "\n = Nero ( b ) = \n Four ! \n")) == (
        Article("Kirby's Ball", ("One.", "Two, then", "Three.")),
        Article("Nero (b)", ("Four!",)),
    )


def test_other_files_are_rejected(tmp_path):
    with pytest.raises(InputError, match=r"such as '= Alan Turing =', but line 2 of .* is 'Some text\.'"):
        read_wikitext(write(tmp_path / "a.txt", "\nSome text.\n"))
    with pytest.raises(InputError, match="is empty"):
        read_wikitext(write(tmp_path / "a.txt", "\n"))
    with pytest.raises(InputError, match="there is none at"):
        read_wikitext(tmp_path / "none.raw")


@pytest.mark.shared
def test_the_real_file_is_plain_text(shared):
    articles = read_wikitext(shared / "data" / "wiki" / "wiki.test.raw")
    assert len(articles) == 62
    assert articles[0].title == "Robert Boulter"
    assert articles[0].sentences[1] == "He had a guest-starring role on the television series The Bill in 2000."
    text = " ".join(sentence for article in articles for sentence in article.sentences)
    for spaced in ("@", " , ", " . ", " ; ", "( ", " )", " n't"):
        assert spaced not in text, spaced
