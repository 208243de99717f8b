"""The memory of a model that stays on disk."""

import sys

import pytest

from benchmarks.large_model import SHAPE, TOKENS, peak_above_torch, write_model


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_model_on_disk_takes_a_fraction_of_its_weights(tmp_path):
    weights = 4 * write_model(tmp_path, SHAPE)
    assert weights > 6e9
    assert peak_above_torch(tmp_path, TOKENS) < 1.2e9
