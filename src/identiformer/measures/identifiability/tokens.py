"""Token identifiability per layer: is the vector at position j still token j? §4, Figures 2a, 7, 38, 39."""

from typing import Any, Unpack

import numpy as np
import torch
import xarray as xr

from identiformer.equations.identifiability.recovery import recover_from_vocabulary
from identiformer.measures.identifiability.experiment import Experiment, Fits, Options, Tally, is_undefined, prepare_experiment
from identiformer.models.hidden_states.recording import Vocabulary, vocabulary_of
from identiformer.models.model import Model
from identiformer.probes import Method
from identiformer.results.schema import VARIABLES
from identiformer.texts import FREQUENCY_BANDS, TOKEN_TYPES, Corpus, frequency_bands, token_types


def token_identifiability(model: Model, corpus: Corpus, *, vocabulary: bool = False, **options: Unpack[Options]) -> xr.Dataset:
    """Measure how many tokens can be recovered: after a learned map, the input nearest to their hidden vector is their own. §4.

    Parameters
    ----------
    model : Model
    corpus : path, or sequence of texts, pairs or Examples
    vocabulary : bool
        Also search for each token among all word pieces, on the test examples of the first resplit.
    methods : iterable of str or Method, optional
        "KIND LOSS" with kinds naive, linear, procrustes, mlp and losses cosine, l2; or a `Method`. By default all but mlp.
    fit : {"closed", "adam"}
        How linear maps are fitted: in closed form (seconds) or by Adam as in the paper. An MLP always takes Adam, slowly.
    layers : int or sequence of int, optional
        Layers to measure, counted from 1; all by default.
    resplits : int
        Number of random splits into training, validation and test examples; 10 by default.
    limit : int, optional
        Use only the first N examples of the corpus.
    max_length : int, optional
        Truncate examples to this many tokens; by default, an example too long for the model is an error.
    store : path, optional
        Folder that keeps hidden states and fits by Adam for later calls.
    seed : int
        Seed of the splits.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    xarray.Dataset
        `rate` (probe, layer): the mean recovery rate over the resplits' test examples, with `rate_sd`, its standard deviation
        between resplits, and `rate_low`, `rate_high`, a 95% bootstrap interval over examples. `resplit_rate` (probe, layer,
        resplit); `train_rate` (probe, layer), on training examples. `strict`, `lenient`, `vocabulary` (probe, layer): the share
        recovered at their position, as their word piece, and among all word pieces. `ties` (probe, layer): tests in which
        several inputs were equally near, which do not count as recovered. `type_rate` (probe, layer, type) and `frequency_rate`
        (probe, layer, frequency), by kind of token, with `type_tokens` (type) and `frequency_tokens` (frequency).
        `random_rate` (): the rate of guessing. `rate` is strict, unless the model's inputs have no positions: then `strict` is
        NaN and `rate` is lenient, as the attribute `headline` says.

    Examples
    --------
    >>> import identiformer as idf
    >>> texts = [f"He ate {number} pies." for number in range(4)]
    >>> result = idf.token_identifiability(idf.load("minilm"), texts, methods=["naive cosine"], layers=1, resplits=1)
    >>> float(result.rate[0, 0])
    1.0
    """
    with prepare_experiment(model, corpus, options) as experiment:
        words = vocabulary_of(model, experiment.states) if vocabulary else None
        types = token_types(experiment.states.texts.tolist(), experiment.states.special.tolist())
        bands = frequency_bands(experiment.states.ids)
        sizes = {"probe": len(experiment.methods), "layer": len(experiment.layers), "resplit": len(experiment.splits)}
        sizes |= {"type": len(TOKEN_TYPES), "frequency": len(FREQUENCY_BANDS)}
        layout = VARIABLES["token_identifiability"].items()
        arrays = {name: np.full([sizes[dim] for dim in dims], np.nan) for name, dims in layout if dims[:1] == ("probe",)}
        experiment.bar.expect(sizes["probe"] * sizes["layer"] * sizes["resplit"])
        for column, layer in enumerate(experiment.layers):
            fits = Fits(experiment, layer)
            for row, method in enumerate(experiment.methods):
                if is_undefined(fits.task, method):
                    experiment.bar.advance(len(experiment.splits))
                    continue
                for name, value in _measure(experiment, fits, method, words, types, bands).items():
                    arrays[name][row, column] = value
        arrays |= {
            "type_tokens": np.bincount(types, minlength=len(TOKEN_TYPES)),
            "frequency_tokens": np.bincount(bands, minlength=len(FREQUENCY_BANDS)),
        }
        coordinates = {"resplit": np.arange(sizes["resplit"]), "type": list(TOKEN_TYPES), "frequency": list(FREQUENCY_BANDS)}
        return experiment.dataset("token_identifiability", arrays, coordinates)


def _measure(
    experiment: Experiment, fits: Fits, method: Method, words: Vocabulary | None, types: np.ndarray, bands: np.ndarray
) -> dict[str, Any]:
    """Fit one method at one layer to every resplit, and test it on held-out examples and on the training examples."""
    task = fits.task
    test, training = (Tally(task, method, len(experiment.splits)) for _ in range(2))
    among_all_words = float("nan")
    for resplit, split in enumerate(experiment.splits):
        network = fits(method, resplit, split)
        test.add(network, split.test, resplit)
        training.add(network, split.training, resplit)
        if resplit == 0 and words is not None:
            rows = task.rows(split.test)
            with torch.no_grad():
                predicted = network(task.hidden[rows])
            hits = recover_from_vocabulary(
                predicted, words.words, words.offsets, words.offset_index[rows], words.ids[rows], method.metric
            )
            among_all_words = float(hits.double().mean())
        experiment.bar.advance(1)
    tests = int(test.row_tests.sum())
    return {
        **test.summary(experiment.seed),
        "resplit_rate": test.by_resplit,
        "train_rate": float(training.by_resplit.mean()),
        "strict": test.strict / tests if experiment.states.positional else float("nan"),
        "lenient": test.lenient / tests,
        "vocabulary": among_all_words,
        "ties": test.ties,
        "type_rate": test.rate_by_group(types, len(TOKEN_TYPES)),
        "frequency_rate": test.rate_by_group(bands, len(FREQUENCY_BANDS)),
    }
