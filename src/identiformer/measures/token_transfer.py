"""Maps trained on one layer and tested on all: does identity keep its form? §4.2, Figures 2b, 8-10"""

from typing import Unpack

import numpy as np
import xarray as xr

from identiformer.measures.recovery import Fits, Tally, input_task, naive_undefined, seeded
from identiformer.measures.recovery_plan import Options, prepared
from identiformer.models.model import Model
from identiformer.probes import Method
from identiformer.results.schema import RATES
from identiformer.texts import Corpus

FIRM = Method("linear", "cosine", shrinkage=1e-2)
"""A map that also leans on directions of little variance finds a token or two more in its own layer, and is lost in any other."""


def token_transfer(model: Model, corpus: Corpus, **options: Unpack[Options]) -> xr.Dataset:
    """The identifiability rate at every layer of a map trained on one: `rate` over (probe, trained, layer).

    `layers` are those to train on, all without it; `options` as in `token_identifiability`. Test parts hold no example that
    the map was trained on, at any layer. Unless `methods` say otherwise the map is linear, for cosine, with a fixed and firm
    regularisation: one chosen for the layer's own rate is weak, and tells little of other layers.
    """
    with prepared(model, corpus, options, default=(FIRM,)) as plan:
        trained, tested = plan.layers, list(range(1, plan.states.layers + 1))
        arrays = {name: np.full((len(plan.methods), len(trained), len(tested)), np.nan) for name in RATES}
        plan.bar.expect(len(plan.methods) * (len(trained) * len(plan.splits) + len(tested)))
        networks = {}
        for layer in trained:
            fits = Fits(input_task(plan.states, layer), plan.states, layer, "input", plan.keep)
            for row, method in enumerate(plan.methods):
                networks[row, layer] = [fits(seeded(method, number), split) for number, split in enumerate(plan.splits)]
                plan.bar.advance(len(plan.splits))
        for column, layer in enumerate(tested):
            task = input_task(plan.states, layer)
            for row, method in enumerate(plan.methods):
                plan.bar.advance(1)
                if naive_undefined(task, method):
                    continue
                for place, origin in enumerate(trained):
                    tally = Tally.empty(task, len(plan.splits))
                    for number, split in enumerate(plan.splits):
                        tally.add(task, networks[row, origin][number], split.test, number, method)
                    for name, value in tally.summary(plan.seed).items():
                        arrays[name][row, place, column] = value
        return plan.dataset("token_transfer", arrays, {"trained": trained, "layer": tested})
