"""Intervals of first-order effects, from the exact effects of a sample: split conformal prediction."""

from math import ceil, inf

import numpy as np
from jaxtyping import Float


def conformal_quantile(scores: Float[np.ndarray, " sample"], coverage: float = 0.95) -> float:
    """The score that a further one of the same kind does not exceed with at least this probability, whatever its distribution.

    Split conformal prediction: of n exchangeable scores s, such as |exact - e|/|e|, the ⌈(n + 1)·coverage⌉-th smallest.

    Parameters
    ----------
    scores : float array (sample)
        How far each first-order effect is from the exact one; infinite ones count as the largest.
    coverage : float
        The probability.

    Returns
    -------
    float
        Infinite where the sample is too small.

    Examples
    --------
    >>> conformal_quantile(np.linspace(0, 1, 39)), conformal_quantile(np.zeros(5))
    (0.9736842105263157, inf)
    """
    rank = ceil((len(scores) + 1) * coverage)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else inf


def missed_share(sample: int, confidence: float = 0.95) -> float:
    """The largest share of a population that can exceed all of a random sample: (1 - share)^n = 1 - confidence.

    Examples
    --------
    >>> round(missed_share(59), 3)
    0.05
    """
    return 1.0 if sample == 0 else 1 - (1 - confidence) ** (1 / sample)
