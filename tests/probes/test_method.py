"""A fitted map does not depend on the test examples, whatever the method."""

import numpy as np
import pytest
import torch

from identiformer.probes import Method, split_examples, task_of

GROUPS = np.repeat(np.arange(30), 6)
METHODS = [
    Method("linear", "l2"),
    Method("linear", "cosine"),
    Method("procrustes", "cosine"),
    Method("linear", "l2", "adam", learning_rate=1e-2),
    Method("mlp", "cosine", "adam", learning_rate=1e-2, inner_width=8),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name} {method.fit}")
def test_map_does_not_depend_on_test_examples(method):
    generator = torch.Generator().manual_seed(0)
    hidden, inputs = (torch.randn(len(GROUPS), 5, generator=generator) for _ in range(2))
    split = split_examples(30, 0)
    before = method.fit_map(task_of(hidden, inputs, GROUPS), split, most_epochs=5)
    tested = np.isin(GROUPS, split.test)
    hidden[tested], inputs[tested] = hidden[tested] * 7 + 1, inputs[tested] * -3
    after = method.fit_map(task_of(hidden, inputs, GROUPS), split, most_epochs=5)
    trained = np.isin(GROUPS, split.training)
    hidden[trained] *= -2
    elsewhere = method.fit_map(task_of(hidden, inputs, GROUPS), split, most_epochs=5)
    for one, other, third in zip(before.parameters(), after.parameters(), elsewhere.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(one, third, rtol=1e-2)
