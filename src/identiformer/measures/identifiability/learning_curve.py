"""Would more training data help? The rate over shares of the training examples. B.2"""

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import xarray as xr

from identiformer.errors import InputError
from identiformer.measures.identifiability.plan import Options, prepared
from identiformer.measures.identifiability.recovery import Fits, input_task, naive_undefined, tested
from identiformer.models.model import Model
from identiformer.results.schema import RATES
from identiformer.texts import Corpus

SHARES = (0.5, 0.8, 0.9, 1.0)


def learning_curve(model: Model, corpus: Corpus, *, shares: Sequence[float] = SHARES, **options: Unpack[Options]) -> xr.Dataset:
    """The identifiability rate when a share of the training examples is used: `rate` over (probe, layer, share).

    A smaller share is part of a larger one; the validation and test parts stay. `options` as in `token_identifiability`.
    """
    if not shares:
        raise InputError("expected at least one share of the training examples, such as 0.5, got none.")
    with prepared(model, corpus, options, default=("linear cosine", "linear l2")) as plan:
        arrays = {name: np.full((len(plan.methods), len(plan.layers), len(shares)), np.nan) for name in RATES}
        plan.bar.expect(arrays["rate"].size)
        for column, layer in enumerate(plan.layers):
            fits = Fits(input_task(plan.states, layer), plan.states, layer, "input", plan.keep)
            for place, share in enumerate(shares):
                splits = [split.share(share) for split in plan.splits]
                for row, method in enumerate(plan.methods):
                    if not naive_undefined(fits.task, method):
                        for name, value in tested(fits, method, splits).summary(plan.seed).items():
                            arrays[name][row, column, place] = value
                    plan.bar.advance(1)
        return plan.dataset("learning_curve", arrays, {"share": list(shares)})
