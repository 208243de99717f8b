"""How sure a rate is, and what guessing would reach."""

import numpy as np
from jaxtyping import Float64, Int64

from identiformer.errors import InputError


def random_rate(lengths: Int64[np.ndarray, " example"]) -> float:
    """What guessing a token of the same example reaches: the mean over tokens of 1/length. §D.1.

    >>> random_rate(np.array([2, 4]))
    0.3333333333333333
    """
    return len(lengths) / int(lengths.sum())


def example_bootstrap(
    hits: Int64[np.ndarray, "example resplit"],
    tokens: Int64[np.ndarray, "example resplit"],
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval of a rate when examples are drawn anew: tokens of one example rise and fall together, so they stay so.

    Entries count what one example gave in the test part of one resplit, 0 where it was not in it. The rate is the mean over
    resplits of hits/tokens.
    """
    if not 0 < level < 1:
        raise InputError(f"expected a level between 0 and 1, got {level}.")
    generator = np.random.default_rng(seed)
    tested = tokens.sum(1) > 0
    hits, tokens = hits[tested], tokens[tested]
    times = generator.multinomial(len(hits), np.full(len(hits), 1 / len(hits)), size=draws).astype(np.float64)
    drawn_hits, drawn_tokens = times @ hits, times @ tokens
    # A draw may leave a small test part empty: that resplit then does not count.
    rates = np.divide(drawn_hits, drawn_tokens, out=np.full_like(drawn_hits, np.nan), where=drawn_tokens > 0)
    return _ends(np.nanmean(rates[np.isfinite(rates).any(1)], 1), level)


def _ends(rates: Float64[np.ndarray, " draw"], level: float) -> tuple[float, float]:
    low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
