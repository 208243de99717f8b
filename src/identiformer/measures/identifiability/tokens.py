"""Token identifiability per layer: is the vector at position j still token j? §4, Figures 2a, 7, 38, 39"""

from typing import Any, Unpack

import numpy as np
import torch
import xarray as xr

from identiformer.equations.identifiability.recovery import recover_from_vocabulary
from identiformer.measures.identifiability.plan import Options, Plan, prepared
from identiformer.measures.identifiability.recovery import Fits, Tally, input_task, naive_undefined, seeded
from identiformer.models.hidden_states.vocabulary import Vocabulary, vocabulary_of
from identiformer.models.model import Model
from identiformer.probes import Method
from identiformer.results.schema import VARIABLES
from identiformer.texts import FREQUENCY_BANDS, TOKEN_TYPES, Corpus, frequency_bands, token_types


def token_identifiability(model: Model, corpus: Corpus, *, vocabulary: bool = False, **options: Unpack[Options]) -> xr.Dataset:
    """The share of tokens whose hidden vector is nearest, after a learned map, to their own input: per probe and layer.

    corpus: a GLUE file, or texts, or pairs of texts.
    vocabulary: also look for each token among all word pieces, in the test part of the first resplit.
    options: methods, fit, layers, resplits, limit, max_length, store, seed, progress (see `Options`).

    `rate` is the mean over the resplits' test parts, with the spread between them (`rate_sd`) and the interval when examples
    are drawn anew (`rate_low`, `rate_high`, 95%); `train_rate` is the same on the training parts. It counts strict hits, the
    very position, unless the model's inputs have no positions: then `strict` is undefined (NaN) and `rate` is `lenient`, the
    same word piece; the attribute `headline` says which. `ties` counts tests in which several inputs were equally near, which
    are no hits. `type_rate` and `frequency_rate` tell kinds of tokens apart; `random_rate` is what guessing reaches.
    """
    with prepared(model, corpus, options) as plan:
        table = vocabulary_of(model, plan.states) if vocabulary else None
        kinds = token_types(plan.states.texts.tolist(), plan.states.special.tolist())
        bands = frequency_bands(plan.states.ids)
        arrays = _empty(plan)
        plan.bar.expect(len(plan.methods) * len(plan.layers) * len(plan.splits))
        for column, layer in enumerate(plan.layers):
            fits = Fits(input_task(plan.states, layer), plan.states, layer, "input", plan.keep)
            for row, method in enumerate(plan.methods):
                if naive_undefined(fits.task, method):
                    plan.bar.advance(len(plan.splits))
                    continue
                for name, value in _measure(plan, fits, method, table, kinds, bands).items():
                    arrays[name][row, column] = value
        arrays |= {
            "type_tokens": np.bincount(kinds, minlength=len(TOKEN_TYPES)),
            "frequency_tokens": np.bincount(bands, minlength=len(FREQUENCY_BANDS)),
        }
        coordinates = {"resplit": np.arange(len(plan.splits)), "type": list(TOKEN_TYPES), "frequency": list(FREQUENCY_BANDS)}
        return plan.dataset("token_identifiability", arrays, coordinates)


def _empty(plan: Plan) -> dict[str, np.ndarray]:
    sizes = {"probe": len(plan.methods), "layer": len(plan.layers), "resplit": len(plan.splits)}
    sizes |= {"type": len(TOKEN_TYPES), "frequency": len(FREQUENCY_BANDS)}
    wanted = {name: dims for name, dims in VARIABLES["token_identifiability"].items() if dims[:2] == ("probe", "layer")}
    return {name: np.full([sizes[dim] for dim in dims], np.nan) for name, dims in wanted.items()}


def _measure(
    plan: Plan, fits: Fits, method: Method, table: Vocabulary | None, kinds: np.ndarray, bands: np.ndarray
) -> dict[str, Any]:
    """One method at one layer: fit on every resplit, test on what was held out and on what was trained on."""
    task = fits.task
    test, training = (Tally.empty(task, len(plan.splits)) for _ in range(2))
    found = float("nan")
    for number, split in enumerate(plan.splits):
        network = fits(seeded(method, number), split)
        test.add(task, network, split.test, number, method)
        training.add(task, network, split.training, number, method)
        if number == 0 and table is not None:
            rows = task.rows(split.test)
            with torch.no_grad():
                predicted = network(task.hidden[rows])
            hits = recover_from_vocabulary(
                predicted, table.words, table.offsets, table.place[rows], table.ids[rows], method.metric
            )
            found = float(hits.double().mean())
        plan.bar.advance(1)
    tests = int(test.token_tests.sum())
    return {
        **test.summary(plan.seed),
        "resplit_rate": test.by_resplit,
        "train_rate": float(training.by_resplit.mean()),
        "strict": test.strict / tests if plan.states.positional else float("nan"),
        "lenient": test.lenient / tests,
        "vocabulary": found,
        "ties": test.ties,
        "type_rate": test.share(kinds, len(TOKEN_TYPES)),
        "frequency_rate": test.share(bands, len(FREQUENCY_BANDS)),
    }
