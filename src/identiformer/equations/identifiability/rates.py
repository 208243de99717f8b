"""Rates: recovery at random, confidence intervals, and scores of a two-class classifier."""

import math

import numpy as np
from jaxtyping import Bool, Int64

from identiformer.errors import InputError


def random_rate(lengths: Int64[np.ndarray, " example"]) -> float:
    """The recovery rate of picking a token of the same example at random: the mean over tokens of 1/length. §D.1.

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
    """Bootstrap confidence interval of a rate, resampling examples, because tokens of one example are not independent.

    Entries are counts of one example in the test split of one resplit, 0 where it was not in it. The rate is the mean over
    resplits of hits/tokens.
    """
    if not 0 < level < 1:
        raise InputError(f"expected a level between 0 and 1, got {level}.")
    generator = np.random.default_rng(seed)
    tested = tokens.sum(1) > 0
    hits, tokens = hits[tested], tokens[tested]
    times = generator.multinomial(len(hits), np.full(len(hits), 1 / len(hits)), size=draws).astype(np.float64)
    drawn_hits, drawn_tokens = times @ hits, times @ tokens
    # A draw may leave a small test split empty: that resplit then does not count.
    rates = np.divide(drawn_hits, drawn_tokens, out=np.full_like(drawn_hits, np.nan), where=drawn_tokens > 0)
    means = np.nanmean(rates[np.isfinite(rates).any(1)], 1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def difference_interval(
    first: Bool[np.ndarray, "seed example"],
    second: Bool[np.ndarray, "seed example"],
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Bootstrap confidence interval of the accuracy of one kind of classifier minus that of another.

    Each was trained several times and tested on the same examples; entries are whether a prediction is correct. Both seeds and
    examples are resampled, and the same examples are drawn for both, because some are hard for every classifier.

    >>> difference_interval(np.array([[True, True]]), np.array([[False, False]]))
    (1.0, 1.0)
    """
    generator = np.random.default_rng(seed)
    differences = np.empty(draws)
    for draw in range(draws):
        examples = generator.integers(first.shape[1], size=first.shape[1])
        means = [kind[generator.integers(len(kind), size=len(kind))].mean(0)[examples].mean() for kind in (first, second)]
        differences[draw] = means[0] - means[1]
    low, high = np.quantile(differences, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def accuracy(predicted: Int64[np.ndarray, " example"], true: Int64[np.ndarray, " example"]) -> float:
    """The share of examples whose label is predicted correctly.

    >>> accuracy(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    0.75
    """
    return float(np.mean(predicted == true))


def f1(predicted: Int64[np.ndarray, " example"], true: Int64[np.ndarray, " example"]) -> float:
    """The harmonic mean of precision and recall of label 1: 2 TP / (2 TP + FP + FN); 0 where there are none.

    >>> f1(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    0.6666666666666666
    """
    both, either = int(np.sum(predicted & true)), int(np.sum(predicted) + np.sum(true))
    return 2 * both / either if either else 0.0


def matthews_correlation(predicted: Int64[np.ndarray, " example"], true: Int64[np.ndarray, " example"]) -> float:
    """Matthews correlation of labels, (TP TN - FP FN) / √((TP+FP)(TP+FN)(TN+FP)(TN+FN)); 0 where either is constant.

    >>> matthews_correlation(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]))
    0.0
    """
    count, both, ones_predicted, ones_true = len(true), int(np.sum(predicted & true)), int(np.sum(predicted)), int(np.sum(true))
    spread = ones_predicted * (count - ones_predicted) * ones_true * (count - ones_true)
    # TP TN - FP FN is the same as n TP - (TP + FP)(TP + FN).
    return (count * both - ones_predicted * ones_true) / math.sqrt(spread) if spread else 0.0
