"""Probes on data whose answer is known (a known map, noise, shuffled labels); saving, loading and checks."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from scipy.stats import norm

from identiformer.errors import InputError, ResultError
from identiformer.models.hidden_states.store import LayerStates, Origin
from identiformer.probes import TokenProbe

EXAMPLES, LENGTH, WIDTH = 60, 8, 12
GROUPS = np.repeat(np.arange(EXAMPLES), LENGTH)
TRAINING, TEST = GROUPS < 45, GROUPS >= 45
CLOSED = [("linear", "cosine"), ("linear", "l2"), ("procrustes", "cosine")]


def known_map(noise=0.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(len(GROUPS), WIDTH, generator=generator)
    turned, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator))
    return (inputs + noise * torch.randn(inputs.shape, generator=generator)) @ turned, inputs


def rate(probe, hidden, inputs):
    probe.fit(hidden[TRAINING], inputs[TRAINING], groups=GROUPS[TRAINING])
    return probe.score(hidden[TEST], inputs[TEST], groups=GROUPS[TEST])


@pytest.mark.parametrize(("kind", "loss"), CLOSED)
def test_known_map_is_recovered(kind, loss):
    assert rate(TokenProbe(kind, loss), *known_map()) == 1.0
    assert rate(TokenProbe("naive", loss), *known_map()) < 0.5


def test_cosine_recovers_tokens_that_differ_little():
    hidden, inputs = known_map()
    shared = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1))).Q[:, 0]
    unshared = hidden - torch.outer(hidden @ shared, shared)
    quiet = torch.arange(len(hidden)) % LENGTH < 2  # two of eight, as [CLS] and [SEP] may be
    drowned = torch.where(quiet[:, None], 0.02 * unshared, unshared) + 3 * shared
    plain = TokenProbe("linear", "cosine", shrinkage=1e-6)
    assert rate(plain, drowned, inputs) < 0.9
    assert rate(TokenProbe("linear", "cosine"), drowned, inputs) > 0.98


@pytest.mark.parametrize(("kind", "loss"), [("linear", "cosine"), ("linear", "l2"), ("mlp", "l2")])
def test_adam_recovers_a_known_map(kind, loss):
    assert rate(TokenProbe(kind, loss, "adam", learning_rate=3e-3, inner_width=64), *known_map()) > 0.97


def test_learning_rate_search(monkeypatch):
    monkeypatch.setattr("identiformer.probes.maps.LEARNING_RATES", (1e-9, 3e-3))
    assert rate(TokenProbe("linear", "l2", "adam", learning_rate=None), *known_map()) > 0.97


def predicted_rate(noise, shrunk, inputs):
    """The probability that each test token is nearest: one margin per other candidate, jointly normal."""
    rng = np.random.default_rng(0)
    x = inputs[TEST].double().numpy().reshape(-1, LENGTH, WIDTH)
    hits = []
    for example in x:
        drawn = shrunk * (example[:, None] + noise * rng.normal(size=(LENGTH, 400, WIDTH)))
        distances = ((drawn[:, :, None] - example[None, None]) ** 2).sum(-1)
        hits.append((distances.argmin(-1) == np.arange(LENGTH)[:, None]).mean())
    return float(np.mean(hits))


@pytest.mark.parametrize("noise", [0.8, 1.5])
def test_noise_lowers_the_rate_as_predicted(noise):
    hidden, inputs = known_map(noise)
    expected = predicted_rate(noise, 1 / (1 + noise**2), inputs)  # regression shrinks towards zero
    spread = norm.ppf(0.999) * np.sqrt(expected * (1 - expected) / TEST.sum())
    assert expected < 0.97
    assert rate(TokenProbe("linear", "l2"), hidden, inputs) == pytest.approx(expected, abs=spread + 0.02)


@pytest.mark.parametrize(("kind", "loss"), CLOSED)
def test_shuffled_labels_reach_chance(kind, loss):
    rates = []
    for seed in range(6):
        hidden, inputs = known_map(seed=seed)
        shuffled = hidden[torch.randperm(len(hidden), generator=torch.Generator().manual_seed(seed))]
        rates.append(rate(TokenProbe(kind, loss), shuffled, inputs))
    tested = 6 * TEST.sum()
    assert np.mean(rates) == pytest.approx(1 / LENGTH, abs=4 * np.sqrt(1 / LENGTH / tested))


def test_saved_probe_is_identical(tmp_path):
    hidden, inputs = known_map(0.5)
    states = LayerStates(hidden, Origin("m", "r", 3))
    for method in (("linear", "cosine", "closed"), ("mlp", "l2", "adam"), ("naive", "l2", "closed")):
        probe = TokenProbe(*method, **({"inner_width": 16, "learning_rate": 3e-3} if method[0] == "mlp" else {}))
        probe.fit(states, inputs, groups=GROUPS)
        path = probe.save(tmp_path / "probe.safetensors")
        again = TokenProbe.load(path)
        torch.testing.assert_close(again.predict(states), probe.predict(states), rtol=0, atol=0)
        assert (again.method, again.origin) == (probe.method, Origin("m", "r", 3))
    with safe_open(path, "pt") as file:
        assert {"format", "settings", "origin"} <= set(file.metadata())
    assert [item.name for item in tmp_path.iterdir()] == ["probe.safetensors"]


def test_probe_is_bound_to_model_and_layer():
    hidden, inputs = known_map()
    probe = TokenProbe().fit(LayerStates(hidden, Origin("m", "r", 3)), inputs, groups=GROUPS)
    probe.predict(LayerStates(hidden, Origin("elsewhere", "r", 3)))
    with pytest.raises(InputError, match="belongs to layer 3 of m, but the vectors are of layer 4 of m"):
        probe.predict(LayerStates(hidden, Origin("m", "r", 4)))
    with pytest.raises(InputError, match="layer 3 of n"):
        probe.score(LayerStates(hidden, Origin("n", "other", 3)), inputs, groups=GROUPS)
    with pytest.raises(InputError, match="pass LayerStates"):
        probe.predict(hidden)
    probe.predict(LayerStates(hidden, Origin("m", "r", 4)), other_layer=True)
    with pytest.raises(InputError, match="belongs to"):
        probe.predict(LayerStates(hidden, Origin("m", "other", 4)), other_layer=True)
    with pytest.raises(InputError, match="width 12, got 5"):
        probe.predict(LayerStates(hidden[:, :5], Origin("m", "r", 3)))


def test_interrupted_fit_leaves_the_probe_unchanged(monkeypatch, tmp_path):
    hidden, inputs = known_map()
    probe = TokenProbe(fit="adam", learning_rate=3e-3)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("identiformer.probes.maps.cosine_loss", interrupt)
    with pytest.raises(KeyboardInterrupt):
        probe.fit(hidden, inputs, groups=GROUPS)
    with pytest.raises(InputError, match="call fit first"):
        probe.predict(hidden)
    with pytest.raises(InputError, match="call fit first"):
        probe.save(tmp_path / "probe.safetensors")
    monkeypatch.undo()
    clean = TokenProbe(fit="adam", learning_rate=3e-3).fit(hidden, inputs, groups=GROUPS).predict(hidden)
    torch.testing.assert_close(probe.fit(hidden, inputs, groups=GROUPS).predict(hidden), clean, rtol=0, atol=0)


def test_damaged_and_foreign_files_are_rejected(tmp_path):
    path = tmp_path / "probe.safetensors"
    with pytest.raises(ResultError, match="does not exist"):
        TokenProbe.load(path)
    path.write_bytes(b"not a tensor")
    with pytest.raises(ResultError, match="damaged"):
        TokenProbe.load(path)
    save_file({"weight": torch.zeros(2, 2)}, path)
    with pytest.raises(ResultError, match="other tensors"):
        TokenProbe.load(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "deep"}, "kind to be one of naive"),
        ({"loss": "l1"}, "loss to be one of cosine"),
        ({"kind": "mlp"}, "no closed form"),
        ({"kind": "procrustes", "fit": "adam"}, "found in closed form"),
        ({"kind": "mlp", "fit": "adam", "dropout": 1.0}, "dropout in"),
        ({"depth": 3}, "settings among learning_rate"),
        ({"shrinkage": 0.0}, "shrinkage above 0"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        TokenProbe(**settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": np.zeros(3)}, "one group per token"),
        ({"groups": np.arange(len(GROUPS)) % 9}, "to be contiguous"),
        ({"groups": np.arange(len(GROUPS)) // 240}, "at least 3 groups"),
        ({"inputs": np.zeros((3, WIDTH))}, "as many inputs"),
        ({"hidden": torch.full((len(GROUPS), WIDTH), torch.nan)}, "finite hidden vectors"),
    ],
)
def test_mismatched_data_are_rejected(change, message):
    hidden, inputs = known_map()
    with pytest.raises(InputError, match=message):
        TokenProbe().fit(**({"hidden": hidden, "inputs": inputs, "groups": GROUPS} | change))


def test_learning_rate_must_be_positive():
    with pytest.raises(InputError, match="learning rate above 0"):
        TokenProbe(fit="adam", learning_rate=0.0).fit(*known_map(), groups=GROUPS)
