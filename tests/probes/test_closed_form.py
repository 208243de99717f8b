"""The closed form recovers no fewer tokens than its special cases, the identity and the orthogonal map."""

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes

import identiformer as idf
from identiformer.equations.identifiability.linear_maps import RidgePath, moments
from identiformer.equations.identifiability.recovery import unit
from identiformer.measures.identifiability.experiment import recovery_task
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.probes import ClosedForm, Method, split_examples, task_of
from identiformer.probes.closed_form import BLOCK, ENOUGH_TOKENS, STRONG, WEAK, Family, direction_families, folds

EXAMPLES, LENGTH, WIDTH = 60, 12, 256
GROUPS = np.repeat(np.arange(EXAMPLES), LENGTH)


def few_words(noise, turned, seed=0):
    """Too few tokens for a free matrix: half as many again as it is wide, all of them different."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(len(GROUPS), WIDTH, generator=generator)
    rotation = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator)).Q if turned else torch.eye(WIDTH)
    return (inputs + noise * torch.randn(inputs.shape, generator=generator)) @ rotation, inputs


def rates(task, metric, splits):
    """The mean test rate of the closed form, of Procrustes, of none, and of ridge regression toward zero."""
    closed, rates = ClosedForm(task, metric), []
    for split in splits:
        rows = task.rows(split.test)
        maps = [closed.ridge(split), closed.procrustes(split), torch.nn.Identity(), closed.ridge(split, 1e-2)]
        with torch.no_grad():
            rates.append(
                [float(task.recover(network(task.hidden[rows]), rows, metric).strict.double().mean()) for network in maps]
            )
    return np.mean(rates, 0)


@pytest.mark.parametrize("turned", [False, True], ids=["identity", "rotation"])
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_with_little_data_linear_is_no_worse_than_its_special_cases(metric, turned):
    task = task_of(*few_words(2.5, turned), GROUPS)
    linear, procrustes, naive, toward_zero = rates(task, metric, [split_examples(EXAMPLES, seed) for seed in range(3)])
    assert max(procrustes, naive) > toward_zero + 0.03  # shrinking toward zero loses what these find
    assert linear >= max(procrustes, naive) - 0.005


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_family_contains_procrustes_and_the_identity(metric):
    hidden, inputs = few_words(1.0, True)
    task = task_of(hidden, inputs, GROUPS)
    task = task.unit_rows() if metric == "cosine" else task
    family = Family(moments(task.hidden, task.inputs), metric, identity=True)
    members = [family.weights(member).numpy() for member in range(len(family))]
    rotation, _ = orthogonal_procrustes(task.hidden.double().numpy(), task.inputs.double().numpy())
    for expected in (rotation, np.eye(WIDTH)):
        scales = [np.linalg.norm(member) / np.linalg.norm(expected) for member in members]
        assert any(np.allclose(m, s * expected, atol=1e-6) for m, s in zip(members, scales, strict=True))
        assert metric == "cosine" or any(np.allclose(member, expected, atol=1e-6) for member in members)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_direction_families_are_ridge_regressions_without_shared_directions(dtype):
    generator = torch.Generator().manual_seed(0)
    hidden = unit(torch.randn(2 * BLOCK + 100, 12, generator=generator, dtype=dtype) + 1)
    inputs = unit(hidden @ torch.randn(12, 9, generator=generator, dtype=dtype) + 1)
    families = direction_families(hidden, inputs, RidgePath(moments(hidden, inputs)))
    e, x = hidden.double().numpy(), inputs.double().numpy()
    shared = np.linalg.svd(e, full_matrices=False)[2][:1]
    e = e - e @ shared.T @ shared
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    centered = x - x.mean(0)
    for family, targets in zip(families, (x, centered / np.linalg.norm(centered, axis=1, keepdims=True)), strict=True):
        left, _, right = np.linalg.svd(e.T @ targets, full_matrices=False)
        toward = left @ right
        toward *= np.vdot(e @ toward, targets) / np.vdot(e @ toward, e @ toward)
        for member, shrinkage in enumerate(WEAK + STRONG, start=1):  # after the orthogonal map itself
            penalty = shrinkage * np.trace(e.T @ e) / e.shape[1]
            expected = np.linalg.solve(e.T @ e + penalty * np.eye(12), e.T @ targets + penalty * toward)
            expected -= shared.T @ (shared @ expected)
            np.testing.assert_allclose(family.weights(member), expected, atol=1e-6 if dtype == torch.float32 else 1e-12)


def test_small_validation_split_is_rotated_without_test_examples():
    task, split = task_of(*few_words(0.5, True), GROUPS), split_examples(EXAMPLES, 0)
    rotated = folds(task, split)
    tested = set(task.rows(split.test).tolist())
    assert len(rotated) == 1 + len(split.training) // len(split.validation)
    assert rotated[0].held_out.tolist() == task.rows(split.validation).tolist()
    for fold in rotated:
        training, held_out = set(fold.training.tolist()), set(fold.held_out.tolist())
        assert not training & held_out
        assert (training | held_out).isdisjoint(tested)
        assert len(training) == len(rotated[0].training)
    assert sum(len(fold.held_out) for fold in rotated) == len(set().union(*(fold.held_out.tolist() for fold in rotated)))


def test_large_validation_split_is_not_rotated():
    groups = np.repeat(np.arange(40), ENOUGH_TOKENS // 6)
    vectors = torch.zeros(len(groups), 1)
    assert len(folds(task_of(vectors, vectors, groups), split_examples(40, 0))) == 1


def test_fit_is_deterministic():
    task, split = task_of(*few_words(2.0, True), GROUPS), split_examples(EXAMPLES, 1)
    one, other = (ClosedForm(task, "cosine").ridge(split).weight for _ in range(2))
    assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("examples", [60, 150, 408])
@pytest.mark.parametrize("name", ["gte-small", "minilm", "smollm2"])
def test_on_real_models_linear_is_within_half_a_point_of_its_special_cases(shared, name, examples):
    model = idf.load(str(shared / "models" / name) if name == "gte-small" else name)
    corpus = idf.read_corpus(shared / "data" / "MRPC" / "dev.tsv", examples)
    splits = [split_examples(examples, seed) for seed in range(4)]
    with hidden_states(model, corpus, None) as states:
        for layer in range(1, states.layers + 1, max(1, states.layers // 4)):
            task = recovery_task(states, layer)
            for loss in ("cosine", "l2"):
                methods = [Method(kind, loss) for kind in ("linear", "procrustes", "naive")]
                linear, procrustes, naive = (mean_rate(task, method, splits) for method in methods)
                assert linear >= max(procrustes, naive) - 0.005, (layer, loss)


def mean_rate(task, method, splits):
    rates = []
    for split in splits:
        rows = task.rows(split.test)
        with torch.no_grad():
            predicted = method.fit_map(task, split)(task.hidden[rows])
        rates.append(float(task.hits(task.recover(predicted, rows, method.metric)).double().mean()))
    return float(np.mean(rates))
