"""Groups of heads against plain indexing, and projections that lose directions."""

import torch

from identiformer.equations import numerical_rank, projection_root
from identiformer.equations.attention.heads import full_row_rank, group_of, per_head


def test_consecutive_heads_share_a_group():
    grouped = torch.arange(6.0).view(3, 2)
    assert [group_of(head, 9, 3) for head in range(9)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert torch.equal(per_head(grouped, 9), grouped[group_of(torch.arange(9), 9, 3)])
    assert torch.equal(per_head(grouped.mT, 6, 1), grouped.mT[:, [0, 0, 1, 1, 2, 2]])


def test_a_lossy_projection_is_detected():
    projection = torch.randn(2, 8, 20)
    projection[1, :, :] = torch.randn(8, 3) @ torch.randn(3, 20)
    assert full_row_rank(projection).tolist() == [True, False]
    values = torch.randn(2, 30, 8)
    transmitted = values.double() @ projection_root(projection)
    t = values.double() @ projection.double()
    torch.testing.assert_close(transmitted @ transmitted.mT, t @ t.mT, atol=1e-4, rtol=1e-5)
    assert numerical_rank(transmitted, torch.float32).tolist() == [8, 3]
