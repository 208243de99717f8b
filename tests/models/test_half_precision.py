"""Half precision: how many dimensions of the values the output sees is decided as in float32."""

import pytest

import identiformer as idf
from identiformer.texts import PASSAGE

ENOUGH = 1.25
"""Head widths that a row must see: with about as many keys as dimensions the smallest singular values lie in the noise."""


def ranks(name, dtype):
    """The rank of every row of every head, and the keys that the row sees."""
    trace = idf.load(name, dtype=dtype).trace(PASSAGE)
    found = idf.effective_attention(trace, matrices=False)
    assert trace.source["dtype"] == dtype
    return found["rank"], found["rank"] + found["nullity"], trace.layer(1).values.shape[-1]


def check(name, dtype):
    """Over all rows that see enough."""
    (exact, seen, width), (half, _, _) = ranks(name, "float32"), ranks(name, dtype)
    asked = (seen >= ENOUGH * width).values
    assert asked.any()
    assert abs(half.values - exact.values)[asked].max() <= 1
    assert (exact.values[asked] > width / 2).all(), "there must be something to decide"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["minilm", pytest.param("smollm2", marks=pytest.mark.slow)])
def test_ranks_are_those_of_float32(name, dtype):
    check(name, dtype)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ranks_of_a_model_of_twelve_layers(shared, dtype):
    check(str(shared / "models" / "gte-small"), dtype)
