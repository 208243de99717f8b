"""Segments of articles, against the same procedure on ranges of tokens, and with a real tokenizer."""

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as some

import identiformer as idf
from identiformer.errors import InputError
from identiformer.texts import Article, read_wikitext, segments

article = some.lists(some.integers(1, 9), max_size=12)


def words(text, pair=None):
    """The length in a tokenizer of one token per word: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]."""
    return len(text.split()) + 2 if pair is None else len(text.split()) + len(pair.split()) + 3


def make(sizes):
    """An article whose sentences have these numbers of words, all distinct."""
    count = iter(range(1000))
    return Article("made", tuple(" ".join(f"w{next(count)}" for _ in range(size)) for size in sizes))


def ranges(sizes, room, generator):
    """Pairs of spans as ranges of token numbers."""
    ends = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    start = 0
    while start < len(sizes):
        stop = next((end for end in range(start + 1, len(ends)) if ends[end] - ends[start] >= room), len(sizes))
        if stop == start + 1:
            return
        middle = start + generator.randint(1, stop - start - 1)
        spans = [[ends[start], ends[middle]], [ends[middle], ends[stop]]]
        while sum(high - low for low, high in spans) > room:
            longer = max(reversed(spans), key=lambda span: span[1] - span[0])
            if generator.random() < 0.5:
                longer[0] += 1
            else:
                longer[1] -= 1
        yield spans
        start = stop


@given(some.lists(article, max_size=4), some.integers(6, 20), some.integers(1, 9), some.integers(0, 3))
def test_segments_match_the_procedure_on_token_ranges(articles, longest, number, seed):
    generator = random.Random(seed)
    expected = list(islice((spans for sizes in articles for spans in ranges(sizes, longest - 3, generator)), number))
    if len(expected) < number:
        with pytest.raises(InputError, match=f"yield {len(expected)}; make fewer"):
            segments([make(sizes) for sizes in articles], words, number, longest=longest, seed=seed)
        return
    generator.shuffle(expected)
    made = segments([make(sizes) for sizes in articles], words, number, longest=longest, seed=seed)
    assert [[segment.text, segment.pair] for segment in made] == [
        [" ".join(f"w{token}" for token in range(*span)) for span in spans] for spans in expected
    ]


def test_a_word_that_is_too_long_leaves_no_segment():
    with pytest.raises(InputError, match="but these 1 yield 0"):
        segments([make([3, 3])], lambda text, pair=None: 200 * words(text, pair), 1)
    with pytest.raises(InputError, match="at least one segment to make, got 0"):
        segments([make([3, 3])], words, 0)


@pytest.fixture(scope="module")
def articles(shared):
    return read_wikitext(shared / "data" / "wiki" / "wiki.test.raw")


@pytest.fixture(scope="module")
def thousand(articles, minilm):
    return segments(articles, minilm.length)


@pytest.mark.shared
def test_segments_of_the_real_file_fit_and_are_consecutive_text(articles, thousand, minilm):
    lengths = [minilm.length(segment.text, segment.pair) for segment in thousand]
    assert len(thousand) == 1000
    assert max(lengths) == 128
    assert sum(length > 120 for length in lengths) > 900
    texts = [" ".join(article.sentences) for article in articles]
    for segment in thousand:
        source = next(text for text in texts if segment.text in text)
        assert segment.pair in source[source.index(segment.text) + len(segment.text) :]


@pytest.mark.shared
def test_the_seed_decides_which_segments_are_made(articles, minilm):
    one, same, other = (segments(articles[:3], minilm.length, 20, seed=seed) for seed in (5, 5, 6))
    assert one == same
    assert set(one) != set(other)


@pytest.mark.shared
def test_segments_are_a_corpus(thousand, minilm, tmp_path):
    run = idf.run(thousand, minilm, ["texts"], out=tmp_path / "run", limit=8)
    assert int(run["texts"].pairs) == 8
    assert "None of them was truncated." in run.summary
