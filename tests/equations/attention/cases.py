"""Attention in its factored form, of drawn weights and values."""

import torch

from identiformer.equations import Visibility, factor_outputs


def factored_case(case):
    weights, values, visible = (torch.from_numpy(array) for array in case)
    repeated = values.repeat_interleave(len(weights) // len(values), 0)
    outputs = weights.double() @ repeated.double()
    return factor_outputs(outputs, values, Visibility.of(visible))
