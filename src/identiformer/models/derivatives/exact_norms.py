"""Norms of whole Jacobian blocks, in forward or reverse mode."""

import torch
from torch import Tensor

from identiformer.errors import InputError
from identiformer.models.derivatives.estimated_norms import ForwardNorms
from identiformer.models.derivatives.input_function import InputFunction, differentiable
from identiformer.models.derivatives.jacobian_blocks import Pullback, Selection, batch_size, require_dependence, selected
from identiformer.models.derivatives.tangents import find_pushforward
from identiformer.progress import WorkBar

ROUNDING = 1e-5
"""A sum whose terms cancel, relative to one whose terms do not: float32 leaves less."""


def exact_norms(function: InputFunction, selection: Selection, norm: str, memory: int, bar: WorkBar) -> Tensor:
    """Return the norms of whole Jacobian blocks, (layer target source)."""
    if norm == "summed" or _reverse_is_cheaper(function, selection):
        norms = _reverse_norms(function, selection, norm, memory, bar)
    elif norm == "spectral":
        norms = _forward_spectral(function, selection, memory, bar)
    else:
        forward = ForwardNorms(function, selection, 0, memory, False, bar)
        forward.extend(torch.full((forward.sources,), forward.width))
        norms = (forward.sums[0] / forward.width).sqrt()
    require_dependence(norms, selection)
    return norms


def _reverse_is_cheaper(function: InputFunction, selection: Selection) -> bool:
    """Whether gradients of the targets pass through fewer layers than changes of the sources."""
    sources, width = function.x.shape
    reverse = len(selection.targets) * sum(layer * function.widths[layer - 1] for layer in selection.layers)
    return reverse < sources * width * max(selection.layers)


@torch.no_grad()
def _forward_spectral(function: InputFunction, selection: Selection, memory: int, bar: WorkBar) -> Tensor:
    """Return the largest singular values; these need whole blocks, so as many targets at a time as fit in memory."""
    pushforward = find_pushforward(function, heads=False)
    sources, width = function.x.shape
    at_once = batch_size(memory // 2, pushforward.kept, pushforward.per_tangent, pushforward.cached)
    largest = max(function.widths)
    fit = max(1, memory // 2 // (len(selection.layers) * largest * width * function.x.element_size()))
    norms = torch.zeros(len(selection.layers), len(selection.targets), sources, dtype=torch.float64)
    basis = torch.eye(width).to(function.x)
    bar.expect(sources * width * -(-len(selection.targets) // fit))
    for group in torch.arange(len(selection.targets)).split(fit):
        positions = torch.tensor(selection.targets)[group]
        for source in range(sources):
            columns = function.x.new_zeros(len(selection.layers), len(group), width, largest)
            for rows in torch.arange(width).split(at_once):
                layers = pushforward.push(torch.full((len(rows),), source), basis[rows])
                for index, (first, hidden, _) in selected(selection, layers):
                    reached = positions >= first
                    tangents = hidden[:, positions[reached] - first].transpose(0, 1)
                    columns[index, reached, rows[0] : rows[-1] + 1, : hidden.shape[-1]] = tangents
                bar.advance(len(rows))
            norms[:, group, source] = _largest_singular_value(columns)
    return norms


def _largest_singular_value(blocks: Tensor) -> Tensor:
    """Return σ_1 of each matrix from the eigenvalues of its Gram matrix, in float64 because squaring loses digits."""
    wide = blocks.double()
    gram = wide @ wide.mT if wide.shape[-2] <= wide.shape[-1] else wide.mT @ wide
    return torch.linalg.eigvalsh(gram)[..., -1].clamp(min=0).sqrt().cpu()


def _reverse_norms(function: InputFunction, selection: Selection, norm: str, memory: int, bar: WorkBar) -> Tensor:
    """Return norms from gradients of each component of a target's hidden vector, or of their sum."""
    pullback = differentiable(function, lambda: Pullback(function, memory, bar))

    def block_norms(layer: int, target: int) -> Tensor:
        width = function.widths[layer - 1]
        if norm == "summed":
            signs = torch.randint(2, (width,), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
            sum_and_control = torch.stack([torch.ones(width), signs]).to(function.x)
            return _summed(torch.cat(list(pullback.pull(layer, target, sum_and_control))), layer)
        rows = pullback.pull(layer, target, torch.eye(width).to(function.x))
        if norm == "spectral":
            return _largest_singular_value(torch.cat(list(rows)).transpose(0, 1))
        return sum((batch.double().square().sum((0, -1)) for batch in rows), torch.zeros(len(function.x))).sqrt().cpu()

    def all_norms() -> Tensor:
        return torch.stack(
            [torch.stack([block_norms(layer, target) for target in selection.targets]) for layer in selection.layers]
        )

    rows_per_layer = [2 if norm == "summed" else function.widths[layer - 1] for layer in selection.layers]
    bar.expect(len(selection.targets) * sum(rows_per_layer))
    return differentiable(function, all_norms)


def _summed(gradients: Tensor, layer: int) -> Tensor:
    """Return ‖Σ_a ∂e_a/∂x‖ per source, or raise if it is only rounding, compared with a sum with random signs."""
    summed, control = gradients.double().norm(dim=-1).cpu()
    if float(summed.norm()) < ROUNDING * float(control.norm()):
        raise InputError(
            f"the summed hidden vector of layer {layer} does not depend on the input, as after a LayerNorm with equal weights; "
            f"expected norm='frobenius' or 'spectral'."
        )
    return summed
