"""Of how many rows the largest weight is certain, against every row by itself."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError

TEXT = "The minister wrote back to the schoolchildren at once, and the schoolchildren wrote to the minister again."


def test_all_rows_of_a_head(minilm):
    trace = minilm.limited(128).trace(" ".join([TEXT] * 3))
    ordinary = [place for place, special in enumerate(trace.part().queries.special) if not special]
    found = idf.certified_share(trace, layers=[3], rows=1000)
    for head in (0, 7):
        rows = idf.ambiguity(trace, 3, head, query=ordinary, alternatives=False)
        assert float(found.certified.sel(layer=3, head=head)) == rows.argmax_certified.values.mean()
        largest = rows.isel(key=rows.largest)
        assert float(found.width.sel(layer=3, head=head)) == pytest.approx(float((largest.high - largest.low).mean()), abs=1e-6)


def test_a_short_text_is_certain_and_the_same_rows_are_drawn_again(minilm):
    trace = minilm.trace(TEXT)
    one, again = (idf.certified_share(trace, layers=[1, 6], seed=3) for _ in range(2))
    assert one.identical(again)
    assert one.sizes == {"layer": 2, "head": 12}
    assert np.all((one.certified.values >= 0) & (one.certified.values <= 1))
    assert float(one.certified.mean()) > 0.9


def test_bad_input(minilm):
    with pytest.raises(InputError, match="rows to be at least 1, got 0"):
        idf.certified_share(minilm.trace(TEXT), rows=0)
    with pytest.raises(InputError, match="layer numbers from 1 to 6, got 7"):
        idf.certified_share(minilm.trace(TEXT), layers=[7])
