"""From a layer to the one before: what each layer alone does to identity. B.4, Figures 11-13"""

from typing import Unpack

import numpy as np
import xarray as xr

from identiformer.measures.identifiability.plan import Options, prepared
from identiformer.measures.identifiability.recovery import Fits, input_task, naive_undefined, tested
from identiformer.models.model import Model
from identiformer.results.schema import RATES
from identiformer.texts import Corpus


def token_steps(model: Model, corpus: Corpus, **options: Unpack[Options]) -> xr.Dataset:
    """The share of vectors e^l that find their own e^{l-1} among those of the example, e^0 = x: `rate` over (probe, layer).

    `options` as in `token_identifiability`.
    """
    with prepared(model, corpus, options) as plan:
        arrays = {name: np.full((len(plan.methods), len(plan.layers)), np.nan) for name in RATES}
        plan.bar.expect(arrays["rate"].size)
        for column, layer in enumerate(plan.layers):
            fits = Fits(input_task(plan.states, layer, layer - 1), plan.states, layer, "step", plan.keep)
            for row, method in enumerate(plan.methods):
                if not naive_undefined(fits.task, method):
                    for name, value in tested(fits, method, plan.splits).summary(plan.seed).items():
                        arrays[name][row, column] = value
                plan.bar.advance(1)
        return plan.dataset("token_steps", arrays, {})
