"""Of how many rows the largest weight is certain, against every row by itself."""

import json

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError

TEXT = "The minister wrote back to the schoolchildren at once, and the schoolchildren wrote to the minister again."


def test_rows_of_a_head(minilm):
    trace = minilm.trace(" ".join([TEXT] * 2))
    found = idf.certified_share(trace, layers=[3], rows=8)
    drawn = json.loads(found.attrs["settings"])["rows"]
    assert len(drawn) == 8
    assert not any(trace.stack().queries.special[query] for query in drawn)
    rows = [idf.ambiguity(trace, 3, 7, query=query, top=1, alternatives=False).isel(query=0) for query in drawn]
    assert float(found.certified.sel(layer=3, head=7)) == np.mean([bool(row.argmax_certified) for row in rows])
    widths = [float((row.high - row.low).sel(key=row.largest)) for row in rows]
    assert float(found.width.sel(layer=3, head=7)) == pytest.approx(np.mean(widths), abs=1e-9)


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
