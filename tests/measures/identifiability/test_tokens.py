"""Token identifiability over a corpus, on models and data whose answer is known."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures.identifiability.experiment import recovery_task
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.probes import split_examples
from identiformer.probes.closed_form import SHRINKAGES
from identiformer.texts import TOKEN_TYPES, Example
from tests.models.families import SERVED, build, word_tokenizer

RNG = np.random.default_rng(0)
CORPUS = [" ".join(f"w{number}" for number in RNG.integers(0, 30, RNG.integers(5, 14))) for _ in range(60)]
METHODS = ("naive cosine", "naive l2", "linear cosine", "linear l2", "procrustes cosine")


def tiny(family):
    return idf.load(build(family, SERVED[family]), word_tokenizer())


@pytest.fixture(scope="module")
def bert():
    """A random BERT with scaled-up weights; without scaling, hidden vectors stay close to the inputs."""
    model = tiny("bert")
    with torch.no_grad():
        for name, parameter in model.network.encoder.named_parameters():
            if "LayerNorm" not in name:
                parameter.mul_(14)
    return model


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def result(bert, store):
    return idf.token_identifiability(bert, CORPUS, resplits=3, store=store, vocabulary=True)


def test_result_has_probes_attributes_and_counts(result, tmp_path):
    assert tuple(result.probe.values) == METHODS
    assert result.rate.dims == ("probe", "layer")
    assert result.attrs["headline"] == "strict"
    assert result.attrs["examples"] == 60
    assert float(result.random_rate) == pytest.approx(60 / result.attrs["tokens"])
    assert int(result.type_tokens.sum()) == int(result.frequency_tokens.sum()) == result.attrs["tokens"]
    again = idf.open_result(idf.save_result(result, tmp_path / "r.zarr"))
    assert again.identical(result)


def test_linear_probe_beats_naive_and_declines_with_depth(result):
    assert (result.rate.sel(probe="linear cosine") > result.rate.sel(probe="naive cosine") + 0.2).all()
    assert (result.rate.sel(layer=1) > result.rate.sel(layer=2) + 0.05).all()
    assert float(result.rate.sel(probe="linear cosine", layer=1)) > 0.9
    assert float(result.random_rate) < float(result.rate.sel(probe="linear cosine", layer=2)) < 0.8
    assert (result.train_rate >= result.rate - 0.01).all()
    assert (result.lenient >= result.strict).all()
    assert (result.vocabulary < result.lenient).all()
    assert float(result.vocabulary.sel(probe="linear cosine", layer=1)) > 0.4
    assert (result.rate_low <= result.rate).all()
    assert (result.rate <= result.rate_high).all()
    np.testing.assert_allclose(result.resplit_rate.mean("resplit"), result.rate)
    np.testing.assert_allclose(result.resplit_rate.std("resplit", ddof=1), result.rate_sd)


def test_naive_rate_matches_a_plain_loop(bert, store, result):
    with hidden_states(bert, [Example(text) for text in CORPUS], store) as states:
        x, e = np.array(states.inputs, dtype=np.float64), np.array(states.hidden[1], dtype=np.float64)
        rates = []
        for seed in range(3):
            hits = []
            for example in idf_split(60, seed):
                rows = range(states.starts[example], states.starts[example + 1])
                hits += [min(rows, key=lambda other: ((e[row] - x[other]) ** 2).sum()) == row for row in rows]
            rates.append(np.mean(hits))
    np.testing.assert_allclose(result.resplit_rate.sel(probe="naive l2", layer=2), rates)


def idf_split(examples, seed):
    from identiformer.probes import split_examples

    return split_examples(examples, seed).test


def test_rate_by_token_type(result):
    assert result.type_rate.sel(type="special").notnull().all()
    assert result.type_rate.sel(type="later piece").isnull().all()  # the words of this vocabulary are whole
    assert list(result.type.values) == list(TOKEN_TYPES)


def test_without_positions_the_rate_is_lenient():
    actual = idf.token_identifiability(tiny("llama"), CORPUS, methods=["naive cosine", "linear cosine"], resplits=2)
    assert actual.attrs["headline"] == "lenient"
    assert actual.strict.isnull().all()
    np.testing.assert_allclose(actual.lenient.sel(probe="linear cosine"), actual.rate.sel(probe="linear cosine"), atol=0.02)
    assert (actual.rate.sel(probe="linear cosine", layer=1) > 0.8).all()
    assert actual.ties.sel(probe="linear cosine", layer=1) > 0  # words that come twice


def test_naive_rate_is_undefined_for_narrow_embeddings():
    actual = idf.token_identifiability(tiny("albert"), CORPUS, resplits=1, layers=[1])
    assert actual.rate.sel(probe=["naive cosine", "naive l2"]).isnull().all()
    assert actual.rate.sel(probe=["linear cosine", "linear l2", "procrustes cosine"]).notnull().all()


def test_transfer_to_the_training_layer_is_the_rate(bert, store, result):
    weak = idf.Method("linear", "cosine", shrinkage=1e-6)
    actual = idf.token_transfer(bert, CORPUS, layers=[2], resplits=3, store=store, methods=[weak])
    assert actual.rate.dims == ("probe", "trained", "layer")
    untransferred = idf.token_identifiability(bert, CORPUS, layers=[2], resplits=3, store=store, methods=[weak])
    np.testing.assert_allclose(actual.rate.sel(trained=2, layer=2), untransferred.rate.sel(layer=2))
    assert 0.2 < float(actual.rate.sel(trained=2, layer=1)[0]) < float(result.rate.sel(probe="linear cosine", layer=1)) - 0.2


def test_transfer_selects_shrinkage_over_all_layers(bert, store):
    options = {"layers": [1], "resplits": 1, "store": store}
    chosen = idf.token_transfer(bert, CORPUS, **options).rate[0, 0].values
    fixed = [
        idf.token_transfer(bert, CORPUS, methods=[idf.Method("linear", "cosine", shrinkage=shrinkage)], **options)
        .rate[0, 0]
        .values
        for shrinkage in SHRINKAGES
    ]
    with hidden_states(bert, [Example(text) for text in CORPUS], store) as states:
        tasks = [recovery_task(states, layer) for layer in (1, 2)]
        split = split_examples(states.examples, 0)
        rates = []
        for shrinkage in SHRINKAGES:
            network = idf.Method("linear", "cosine", shrinkage=shrinkage).fit_map(tasks[0], split)
            hits = [task.recover(network(task.hidden[rows]), rows, "cosine").strict for task in tasks
                    for rows in [task.rows(split.validation)]]  # fmt: skip
            rates.append(np.mean([float(hit.double().mean()) for hit in hits]))
    np.testing.assert_allclose(chosen, fixed[int(np.argmax(rates))])
    assert len({tuple(rates) for rates in fixed}) > 1


def test_steps_recover_the_previous_layer(bert, store, result):
    actual = idf.token_steps(bert, CORPUS, resplits=3, store=store)
    np.testing.assert_allclose(actual.rate.sel(layer=1), result.rate.sel(layer=1))
    assert (actual.rate.sel(layer=2) > result.rate.sel(layer=2) + 0.05).all()
    with hidden_states(bert, [Example(text) for text in CORPUS], store) as states:
        assert torch.equal(recovery_task(states, 2, 1).candidates, states.layer(1).values)


def test_neighbors_stay_within_an_example(bert, store):
    actual = idf.token_neighbors(bert, CORPUS, resplits=2, layers=[1], store=store, offsets=[-1, 2])
    assert actual.rate.dims == ("probe", "layer", "offset")
    with hidden_states(bert, [Example(text) for text in CORPUS], store) as states:
        for offset in (-1, 2):
            task = recovery_task(states, 1, offset=offset)
            rows = [
                (token, token + offset)
                for start, end in zip(states.starts, states.starts[1:], strict=False)
                for token in range(start, end)
                if start <= token + offset < end
            ]
            assert task.target.tolist() == [target for _, target in rows]
            assert torch.equal(task.hidden, states.layer(1).values[[token for token, _ in rows]])


def test_rate_grows_with_training_data(bert, store, result):
    actual = idf.learning_curve(bert, CORPUS, resplits=3, layers=[2], store=store, shares=[0.3, 1.0])
    np.testing.assert_allclose(actual.rate.sel(share=1.0), result.rate.sel(probe=["linear cosine", "linear l2"], layer=[2]))
    assert (actual.rate.sel(share=0.3) < actual.rate.sel(share=1.0) - 0.01).all()


def test_interrupted_run_reuses_stored_adam_fits(bert, tmp_path, monkeypatch):
    method = idf.Method("linear", "l2", "adam", learning_rate=1e-2)
    monkeypatch.setattr("identiformer.probes.maps.PATIENCE", 2)
    arguments = {"methods": [method], "resplits": 2, "layers": [1], "store": tmp_path}
    from identiformer.probes import token_probe as fitting

    made, train = [], fitting.train_map

    def interrupted(*arguments):
        if len(made) == 1:
            made.append("interrupted")
            raise KeyboardInterrupt
        made.append("fit")
        return train(*arguments)

    monkeypatch.setattr(fitting, "train_map", interrupted)
    with pytest.raises(KeyboardInterrupt):
        idf.token_identifiability(bert, CORPUS, **arguments)
    first = idf.token_identifiability(bert, CORPUS, **arguments)
    assert made == ["fit", "interrupted", "fit"]
    again = idf.token_identifiability(bert, CORPUS, **arguments)
    assert len(made) == 3
    assert again.identical(first)


@pytest.mark.parametrize(
    ("corpus", "options", "message"),
    [
        (CORPUS[:3], {}, "at least 4 examples"),
        (CORPUS, {"resplits": 0}, "at least one resplit"),
        (CORPUS, {"layers": [3]}, "a layer from 1 to 2"),
        (CORPUS, {"methods": ["linear"]}, "a method such as"),
        (CORPUS, {"methods": ["linear l1"]}, "loss to be one of"),
        (CORPUS, {"methods": []}, "got none"),
        (CORPUS, {"methods": ["naive l2", "naive l2"]}, "different names"),
    ],
)
def test_invalid_options_are_rejected(bert, store, corpus, options, message):
    with pytest.raises(InputError, match=message):
        idf.token_identifiability(bert, corpus, store=store, **options)


def test_examples_of_one_token_are_rejected():
    model = tiny("llama")
    model.tokenizer.backend_tokenizer.post_processor = None
    with pytest.raises(InputError, match=r"example 1 .* has one, which is always recovered"):
        idf.token_identifiability(model, ["w1 w2", "w3", "w4 w5", "w6 w7", "w8 w9"])


def test_invalid_offsets_and_shares_are_rejected(bert, store):
    with pytest.raises(InputError, match="within the shortest example"):
        idf.token_neighbors(bert, CORPUS, offsets=[9], store=store)
    with pytest.raises(InputError, match="at least one offset"):
        idf.token_neighbors(bert, CORPUS, offsets=[], store=store)
    with pytest.raises(InputError, match="at least one share"):
        idf.learning_curve(bert, CORPUS, shares=[], store=store)
    with pytest.raises(TypeError, match="unexpected option layer;"):
        idf.token_steps(bert, CORPUS, layer=1)


def test_vocabulary_needs_inputs_that_are_sums():
    with pytest.raises(UnsupportedModelError, match="--vocabulary"):
        idf.token_identifiability(tiny("gemma2"), CORPUS, vocabulary=True)
