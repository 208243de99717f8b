"""Jacobian norms between adjacent layers: of the hidden vectors of one layer by those of the layer before."""

import torch
from torch import Tensor

from identiformer.equations.attribution.block_jacobians import block_jacobian_norms
from identiformer.errors import UnsupportedModelError
from identiformer.models.derivatives.analytic_blocks import read_blocks
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.models.derivatives.tangents import AnalyticPushforward, agreement


@torch.no_grad()
def adjacent_norms(function: InputFunction) -> Tensor:
    """‖∂e_i^l/∂e_j^{l-1}‖ for every layer l, (layer target source); e⁰ is the input of the first block."""
    blocks = read_blocks(function)
    if blocks is None or not agreement(function)(AnalyticPushforward(function, blocks)):
        raise UnsupportedModelError(
            f"expected blocks with the layout of BERT, Llama or GPT-2, got those of the {function.family} family; use "
            "token_attribution, which attributes all layers to the input."
        )
    last = blocks.blocks[-1]
    return torch.stack([block_jacobian_norms(read(), blocks.final_norm if read is last else None) for read in blocks.blocks])
