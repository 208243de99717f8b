"""Maps trained on one layer and tested on all: does identity keep its form? §4.2, Figures 2b, 8-10"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Unpack

import numpy as np
import xarray as xr
from torch import nn

from identiformer.measures.identifiability.plan import Options, Plan, prepared
from identiformer.measures.identifiability.recovery import Fits, Tally, input_task, naive_undefined, seeded
from identiformer.models.model import Model
from identiformer.probes import Method
from identiformer.probes.closed import SHRINKAGES
from identiformer.results.schema import RATES
from identiformer.texts import Corpus


def token_transfer(model: Model, corpus: Corpus, **options: Unpack[Options]) -> xr.Dataset:
    """The identifiability rate at every layer of a map trained on one: `rate` over (probe, trained, layer).

    `layers` are those to train on, all without it; `options` as in `token_identifiability`. Test parts hold no example that
    the map was trained on, at any layer. Where λ of a closed form is to be chosen, the validation part chooses it by the mean
    rate over all layers: the one that is best in a map's own layer is weak, leans on directions of little variance, and is
    lost in any other.
    """
    with prepared(model, corpus, options, default=("linear cosine",)) as plan:
        trained, tested = plan.layers, list(range(1, plan.states.layers + 1))
        every = list(product(range(len(plan.methods)), trained, range(len(plan.splits))))
        plan.bar.expect(len(every) * (1 + 2 * len(tested)))
        candidates: dict[tuple[int, int, int], list[nn.Module]] = {}
        for origin in trained:
            fits = Fits(input_task(plan.states, origin), plan.states, origin, "input", plan.keep)
            for row, number in ((row, number) for row, layer, number in every if layer == origin):
                of_row = (seeded(each, number) for each in _candidates(plan.methods[row]))
                candidates[row, origin, number] = [fits(each, plan.splits[number]) for each in of_row]
                plan.bar.advance(1)
        networks = _chosen(plan, candidates, tested)
        arrays = {name: np.full((len(plan.methods), len(trained), len(tested)), np.nan) for name in RATES}
        for column, layer in enumerate(tested):
            task = input_task(plan.states, layer)
            for row, method in enumerate(plan.methods):
                for place, origin in enumerate(trained):
                    plan.bar.advance(len(plan.splits))
                    if naive_undefined(task, method):
                        continue
                    tally = Tally.empty(task, len(plan.splits))
                    for number, split in enumerate(plan.splits):
                        tally.add(task, networks[row, origin, number], split.test, number, method)
                    for name, value in tally.summary(plan.seed).items():
                        arrays[name][row, place, column] = value
        return plan.dataset("token_transfer", arrays, {"trained": trained, "layer": tested})


def _candidates(method: Method) -> list[Method]:
    """A method with each λ that it could have, where that is still to be chosen."""
    open_choice = method.kind == "linear" and method.fit == "closed" and method.shrinkage is None
    return [replace(method, shrinkage=shrinkage) for shrinkage in SHRINKAGES] if open_choice else [method]


def _chosen(
    plan: Plan, candidates: dict[tuple[int, int, int], list[nn.Module]], tested: Sequence[int]
) -> dict[tuple[int, int, int], nn.Module]:
    """Of each map's candidates the one that finds most tokens of the validation part, over all layers together."""
    found = {place: np.zeros(len(maps)) for place, maps in candidates.items()}
    for layer in tested:
        task = input_task(plan.states, layer)
        for (row, origin, number), maps in candidates.items():
            plan.bar.advance(1)
            if len(maps) > 1:
                for place, network in enumerate(maps):
                    tally = Tally.empty(task, 1)
                    tally.add(task, network, plan.splits[number].validation, 0, plan.methods[row])
                    found[row, origin, number][place] += tally.by_resplit[0]
    return {place: maps[int(found[place].argmax())] for place, maps in candidates.items()}
