"""Visibility against plain masks."""

import numpy as np
import torch

from identiformer.equations import Visibility
from tests.equations import oracles


def test_visibility_round_trips_masks():
    for kind in oracles.KINDS:
        mask = torch.from_numpy(oracles.masks(9, 9, kind, np.random.default_rng(0)))
        visible = Visibility.of(mask)
        assert torch.equal(visible.dense(), mask)
        assert torch.equal(visible.counts, mask.sum(-1))
        assert torch.equal(visible.with_leading_keys(2).dense(), torch.nn.functional.pad(mask, (2, 0), value=True))
        last = [int(column.nonzero().max()) if column.any() else -1 for column in mask.T]
        assert visible.last_viewer().tolist() == last
