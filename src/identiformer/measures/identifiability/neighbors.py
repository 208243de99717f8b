"""The tokens beside: how much of x_{i±k} can be told from e_i. B.5, Figures 14-17"""

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

OFFSETS = (-3, -2, -1, 1, 2, 3)


def token_neighbors(model: Model, corpus: Corpus, *, offsets: Sequence[int] = OFFSETS, **options: Unpack[Options]) -> xr.Dataset:
    """The share of tokens whose neighbor x_{i+offset} is found from e_i: `rate` over (probe, layer, offset).

    Negative offsets are previous tokens. Tokens without such a neighbor are left out. `options` as in
    `token_identifiability`.
    """
    if not offsets:
        raise InputError("expected at least one offset, such as -1 for the token before, got none.")
    with prepared(model, corpus, options, default=("linear cosine",)) as plan:
        if max(map(abs, offsets)) >= plan.states.lengths.min():
            raise InputError(
                f"expected offsets within every example, the shortest of which has {plan.states.lengths.min()} tokens, got "
                f"{list(offsets)}."
            )
        arrays = {name: np.full((len(plan.methods), len(plan.layers), len(offsets)), np.nan) for name in RATES}
        plan.bar.expect(arrays["rate"].size)
        for column, layer in enumerate(plan.layers):
            for place, offset in enumerate(offsets):
                task = input_task(plan.states, layer, offset=offset)
                fits = Fits(task, plan.states, layer, f"neighbor {offset}", plan.keep)
                for row, method in enumerate(plan.methods):
                    if not naive_undefined(task, method):
                        for name, value in tested(fits, method, plan.splits).summary(plan.seed).items():
                            arrays[name][row, column, place] = value
                    plan.bar.advance(1)
        return plan.dataset("token_neighbors", arrays, {"offset": list(offsets)})
