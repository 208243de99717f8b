"""The parts of values add up, and their shares do not cancel."""

import torch

from identiformer.equations.effects.parts import ValueParts, absolute_shares, keep_plan, part_effects


def test_parts_add_up_to_the_value_and_to_its_effect():
    generator = torch.Generator().manual_seed(0)
    replaced, kept, values = torch.randn(3, 2, 5, 4, generator=generator)
    parts = ValueParts(replaced, kept).of_value(values[1], 1)
    torch.testing.assert_close(parts.sum(0), values[1])
    weights, gradients = torch.rand(6, 5, generator=generator), torch.randn(1, 6, 4, generator=generator)
    effects = part_effects(weights, parts, gradients)
    torch.testing.assert_close(effects.sum(0), weights * (gradients[0] @ values[1].mT))
    several = part_effects(weights, parts, torch.cat([gradients, 3 * gradients]))
    torch.testing.assert_close(several, effects.abs() * 5**0.5)


def test_shares_are_of_sizes():
    shares = absolute_shares(torch.tensor([[3.0, 0.0], [-2.0, 0.0], [-1.0, 0.0]]))
    torch.testing.assert_close(shares[:, 0], torch.tensor([0.5, 1 / 3, 1 / 6]))
    assert shares[:, 1].isnan().all()


def test_every_position_is_kept_equally_often():
    plan = keep_plan(50, 64, 0.1, torch.Generator().manual_seed(0))
    assert (plan.sum(0) == 6).all()
    assert len(plan.sum(1).unique()) > 1  # not the same number in every text
