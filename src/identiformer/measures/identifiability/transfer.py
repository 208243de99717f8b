"""Maps trained on one layer and tested on all: do they transfer? §4.2, Figures 2b, 8-10."""

from dataclasses import replace
from itertools import product
from typing import Unpack

import numpy as np
import xarray as xr
from torch import nn

from identiformer.measures.identifiability.experiment import Experiment, Options, prepare_experiment
from identiformer.measures.identifiability.fit_and_test import Fits, Tally, is_undefined, recovery_task
from identiformer.models.model import Model
from identiformer.probes.closed_form import SHRINKAGES
from identiformer.results.schema import RATES
from identiformer.texts import Corpus

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
