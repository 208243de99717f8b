"""Variations of token identifiability: from layer to layer, of neighbors, and with less training data. B.2, B.4, B.5."""

from collections.abc import Sequence
from typing import Unpack

import xarray as xr

from identiformer.errors import InputError
from identiformer.measures.identifiability.experiment import Options, prepare_experiment
from identiformer.measures.identifiability.fit_and_test import Fits, measure_rates
from identiformer.models.model import Model
from identiformer.texts import Corpus

OFFSETS = (-3, -2, -1, 1, 2, 3)
SHARES = (0.5, 0.8, 0.9, 1.0)


def token_steps(model: Model, corpus: Corpus, **options: Unpack[Options]) -> xr.Dataset:
    """Measure the recovery rate over single layers: how many e^{l-1} can be recovered from e^l, with e^0 = x. B.4.

    Parameters
    ----------
    model, corpus, **options
        As in `token_identifiability`.

    Returns
    -------
    xarray.Dataset
        `rate`, `rate_sd`, `rate_low`, `rate_high` (probe, layer) and `random_rate` (), as in `token_identifiability`.

    Examples
    --------
    >>> import identiformer as idf
    >>> texts = [f"He ate {number} pies." for number in range(4)]
    >>> idf.token_steps(idf.load("minilm"), texts, methods=["naive l2"], layers=[1, 6], resplits=1).rate.shape
    (1, 2)
    """
    with prepare_experiment(model, corpus, options) as experiment:
        layers = enumerate(experiment.layers)
        cells = (((row,), Fits(experiment, layer, "step", layer - 1), experiment.splits) for row, layer in layers)
        return measure_rates(experiment, "token_steps", {}, cells)


def token_neighbors(model: Model, corpus: Corpus, *, offsets: Sequence[int] = OFFSETS, **options: Unpack[Options]) -> xr.Dataset:
    """Measure how many neighbors x_{i+offset} can be recovered from e_i. B.5, Figures 14-17.

    Parameters
    ----------
    model, corpus, **options
        As in `token_identifiability`; the default method is "linear cosine".
    offsets : sequence of int
        Which neighbors; negative ones are previous tokens. Tokens without such a neighbor are left out.

    Returns
    -------
    xarray.Dataset
        `rate`, `rate_sd`, `rate_low`, `rate_high` (probe, layer, offset) and `random_rate` (), as in
        `token_identifiability`.

    Examples
    --------
    >>> import identiformer as idf
    >>> texts = [f"He ate {number} pies." for number in range(4)]
    >>> idf.token_neighbors(idf.load("minilm"), texts, offsets=[-1, 1], layers=1, resplits=1).rate.dims
    ('probe', 'layer', 'offset')
    """
    if not offsets:
        raise InputError("expected at least one offset, such as -1 for the token before, got none.")
    with prepare_experiment(model, corpus, options, default=("linear cosine",)) as experiment:
        shortest = experiment.states.lengths.min()
        if max(map(abs, offsets)) >= shortest:
            raise InputError(f"expected offsets within the shortest example, which has {shortest} tokens, got {list(offsets)}.")
        cells = (
            ((row, column), Fits(experiment, layer, f"neighbor {offset}", offset=offset), experiment.splits)
            for row, layer in enumerate(experiment.layers)
            for column, offset in enumerate(offsets)
        )
        return measure_rates(experiment, "token_neighbors", {"offset": list(offsets)}, cells)


def learning_curve(model: Model, corpus: Corpus, *, shares: Sequence[float] = SHARES, **options: Unpack[Options]) -> xr.Dataset:
    """Measure the recovery rate with fewer training examples: would more data help? B.2.

    Parameters
    ----------
    model, corpus, **options
        As in `token_identifiability`; the default methods are "linear cosine" and "linear l2".
    shares : sequence of float
        Shares of the training examples, above 0 and up to 1; a smaller one is contained in a larger one. Validation and test
        examples stay the same.

    Returns
    -------
    xarray.Dataset
        `rate`, `rate_sd`, `rate_low`, `rate_high` (probe, layer, share) and `random_rate` (), as in
        `token_identifiability`.

    Examples
    --------
    >>> import identiformer as idf
    >>> texts = [f"He ate {number} pies." for number in range(8)]
    >>> idf.learning_curve(idf.load("minilm"), texts, methods=["naive l2"], layers=1, resplits=1).sizes["share"]
    4
    """
    if not shares:
        raise InputError("expected at least one share of the training examples, such as 0.5, got none.")
    with prepare_experiment(model, corpus, options, default=("linear cosine", "linear l2")) as experiment:
        fits = (Fits(experiment, layer) for layer in experiment.layers)
        cells = (
            ((row, column), layer_fits, [split.share(share) for split in experiment.splits])
            for row, layer_fits in enumerate(fits)
            for column, share in enumerate(shares)
        )
        return measure_rates(experiment, "learning_curve", {"share": list(shares)}, cells)
