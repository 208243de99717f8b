"""Variations of token identifiability: over single layers, of neighbors, with less data, across layers. §4.2, B.2, B.4, B.5."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Unpack

import numpy as np
import xarray as xr
from torch import nn

from identiformer.errors import InputError
from identiformer.measures.identifiability.experiment import (
    Experiment,
    Fits,
    Options,
    Tally,
    is_undefined,
    measure_rates,
    prepare_experiment,
    recovery_task,
)
from identiformer.models.model import Model
from identiformer.probes.closed_form import SHRINKAGES
from identiformer.results.schema import RATES
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


Maps = dict[tuple[int, int], list[nn.Module]]
"""By method and training layer (indices): one map per resplit."""


def token_transfer(model: Model, corpus: Corpus, **options: Unpack[Options]) -> xr.Dataset:
    """Measure the recovery rate at every layer of a map that was trained on one layer. §4.2.

    Test examples are never trained on, at any layer. λ of a closed form, unless fixed, is the one with the highest mean
    validation rate over all layers: the λ that is best at the training layer alone is weak, relies on directions of little
    variance, and fails at other layers.

    Parameters
    ----------
    model, corpus, **options
        As in `token_identifiability`; `layers` are those to train on, and the default method is "linear cosine".

    Returns
    -------
    xarray.Dataset
        `rate`, `rate_sd`, `rate_low`, `rate_high` (probe, trained, layer) and `random_rate` (), as in
        `token_identifiability`.

    Examples
    --------
    >>> import identiformer as idf
    >>> texts = [f"He ate {number} pies." for number in range(4)]
    >>> result = idf.token_transfer(idf.load("minilm"), texts, methods=["procrustes cosine"], layers=3, resplits=1)
    >>> dict(result.sizes)
    {'probe': 1, 'trained': 1, 'layer': 6}
    """
    with prepare_experiment(model, corpus, options, default=("linear cosine",)) as experiment:
        methods, trained, splits = experiment.methods, experiment.layers, experiment.splits
        tested = list(range(1, experiment.states.layers + 1))
        experiment.bar.expect(len(methods) * len(trained) * len(splits) * (1 + 2 * len(tested)))
        maps = _select_candidates(experiment, tested, _fit_candidates(experiment))
        arrays = {name: np.full((len(methods), len(trained), len(tested)), np.nan) for name in RATES}
        for column, layer in enumerate(tested):
            task = recovery_task(experiment.states, layer)
            for (probe, row), networks in maps.items():
                experiment.bar.advance(len(splits))
                if is_undefined(task, methods[probe]):
                    continue
                tally = Tally(task, methods[probe], len(splits))
                for resplit, (network, split) in enumerate(zip(networks, splits, strict=True)):
                    tally.add(network, split.test, resplit)
                for name, value in tally.summary(experiment.seed).items():
                    arrays[name][probe, row, column] = value
        return experiment.dataset("token_transfer", arrays, {"trained": trained, "layer": tested})


def _fit_candidates(experiment: Experiment) -> list[Maps]:
    """Fit every method to every training layer: once, or with every λ where λ is to be selected."""
    candidates: list[Maps] = [{} for _ in SHRINKAGES]
    for row, layer in enumerate(experiment.layers):
        fits = Fits(experiment, layer)
        for probe, method in enumerate(experiment.methods):
            select = method.kind == "linear" and method.fit == "closed" and method.shrinkage is None
            variants = [replace(method, shrinkage=shrinkage) for shrinkage in SHRINKAGES] if select else [method]
            for maps, variant in zip(candidates, variants, strict=False):
                maps[probe, row] = [fits(variant, resplit, split) for resplit, split in enumerate(experiment.splits)]
            experiment.bar.advance(len(experiment.splits))
    return candidates


def _select_candidates(experiment: Experiment, tested: list[int], candidates: list[Maps]) -> Maps:
    """Of the candidates for each map, keep the one with the highest validation rate over all layers."""
    rates = {key: np.zeros((len(candidates), len(maps))) for key, maps in candidates[0].items()}
    several = [key for key in rates if key in candidates[-1]]
    for layer in tested:
        task = recovery_task(experiment.states, layer)
        for (probe, row), (candidate, maps) in product(several, enumerate(candidates)):
            for resplit, (network, split) in enumerate(zip(maps[probe, row], experiment.splits, strict=True)):
                tally = Tally(task, experiment.methods[probe], 1)
                tally.add(network, split.validation, 0)
                rates[probe, row][candidate, resplit] += tally.by_resplit[0]
        experiment.bar.advance(len(rates) * len(experiment.splits))
    return {key: [candidates[best][key][resplit] for resplit, best in enumerate(rate.argmax(0))] for key, rate in rates.items()}
