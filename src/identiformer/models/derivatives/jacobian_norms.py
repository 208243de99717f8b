"""Norms of Jacobian blocks: estimated along random directions, exact, and between adjacent layers.

Directions of the sources are pushed in forward mode, and those of the targets are pulled in reverse.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from identiformer.equations.attribution.block_jacobians import block_jacobian_norms
from identiformer.equations.attribution.hidden_token import orthonormal_directions
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.derivatives.analytic_blocks import read_blocks
from identiformer.models.derivatives.input_function import InputFunction, differentiable
from identiformer.models.derivatives.jacobian_blocks import (
    MOST_AT_ONCE,
    Pullback,
    Selection,
    batch_size,
    require_dependence,
    selected,
)
from identiformer.models.derivatives.tangents import AnalyticPushforward, agreement, find_pushforward
from identiformer.progress import WorkBar

BLOCK, MULTIPLIED = 8, 32
"""Directions that are multiplied with each other, and how many of the first: few directions show too little of their errors."""
ROUNDING = 1e-5
"""A sum whose terms cancel, relative to one whose terms do not: float32 leaves less."""


class ForwardNorms:
    """Sums of ‖Jr‖² and ‖Jr‖⁴ over directions r of each source; one forward pass per direction serves all layers and targets."""

    def __init__(self, function: InputFunction, selection: Selection, seed: int, memory: int, heads: bool, bar: WorkBar) -> None:
        self._selection, self._seed, self._bar, self._x = selection, seed, bar, function.x
        self.pushforward = find_pushforward(function, heads)
        self._at_once = batch_size(memory, self.pushforward.kept, self.pushforward.per_tangent, self.pushforward.cached)
        self.sources, self.width = function.x.shape
        self.sums = torch.zeros(2, len(selection.layers), len(selection.targets), self.sources, dtype=torch.float64)
        self.head_sums = self.sums.new_zeros(2, len(selection.layers), 0, len(selection.targets), self.sources)
        self.counts = torch.zeros(self.sources, dtype=torch.int64)

    @torch.no_grad()
    def extend(self, counts: Tensor) -> None:
        """Add directions until each source has as many as `counts`; with as many as the width, its norms are exact."""
        self._bar.expect(int((counts - self.counts).clamp(min=0).sum()))
        for sources, directions in self._batches(counts):
            for index, (first, hidden, heads) in selected(self._selection, self.pushforward.push(sources, directions)):
                self._add(self.sums[:, index], sources, first, hidden)
                if heads is not None:
                    if not self.head_sums.shape[2]:
                        moments, layers, _, targets, positions = self.head_sums.shape
                        self.head_sums = self.sums.new_zeros(moments, layers, heads.shape[1], targets, positions)
                    self._add(self.head_sums[:, index], sources, first, heads)
            self._bar.advance(len(sources))
        self.counts = torch.maximum(self.counts, counts)
        require_dependence(self.sums[0], self._selection)

    def _batches(self, counts: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches of sources and their new directions, except those that cannot reach a target."""
        sources, directions = torch.empty(0, dtype=torch.int64), self._x.new_empty(0, self.width)
        for source in (counts > self.counts).nonzero()[:, 0].tolist():
            start, stop = int(self.counts[source]), int(counts[source])
            if self.pushforward.causal and source > max(self._selection.targets):
                self._bar.advance(stop - start)
                continue
            new = orthonormal_directions(self.width, start, stop, (self._seed, source)).to(self._x)
            sources, directions = torch.cat([sources, torch.full((len(new),), source)]), torch.cat([directions, new])
            while len(sources) >= self._at_once:
                yield sources[: self._at_once], directions[: self._at_once]
                sources, directions = sources[self._at_once :], directions[self._at_once :]
        if len(sources):
            yield sources, directions

    def _add(self, sums: Tensor, sources: Tensor, first: int, tangents: Tensor) -> None:
        """Add ‖t‖² and ‖t‖⁴ of each tangent to the sums of its source, (moment … target source)."""
        squared = torch.linalg.vector_norm(tangents, dim=-1).double().square().cpu()
        by_position = squared.new_zeros(*squared.shape[:-1], self.sources)
        by_position[..., first:] = squared
        by_target = by_position[..., list(self._selection.targets)].movedim(0, -1)
        sums[0].index_add_(-1, sources, by_target)
        sums[1].index_add_(-1, sources, by_target.square())


class ReverseNorms:
    """Sums of ‖rᵀJ‖² over directions r of each target, and products of them; one backward pass per direction serves all sources.

    The same estimate as that of `ForwardNorms`, and cheaper for few targets. Sources share a direction, so that their errors are
    correlated: products of directions show how.
    """

    def __init__(self, function: InputFunction, selection: Selection, seed: int, memory: int, bar: WorkBar) -> None:
        self._function, self._selection, self._seed, self._bar = function, selection, seed, bar
        self._pullback = differentiable(function, lambda: Pullback(function, memory, bar))
        self.sources = len(function.x)
        self.width = min(function.widths[layer - 1] for layer in selection.layers)
        self.products: list[Tensor] = []
        """(layer target direction direction source) of a block of directions; (… direction 1 …) of each with itself alone."""
        self.counts = torch.zeros(self.sources, dtype=torch.int64)

    @property
    def mean(self) -> Tensor:
        """The mean of ‖rᵀJ‖² over directions, (layer target source)."""
        squared = [block[:, :, :, 0] if block.shape[3] == 1 else block.diagonal(dim1=2, dim2=3).mT for block in self.products]
        return torch.cat(squared, 2).mean(2)

    def extend(self, counts: Tensor) -> None:
        """Add directions until each source has as many as `counts`: all sources have the same."""
        start, stop = int(self.counts.max()), int(counts.max())
        self._bar.expect(len(self._selection.layers) * len(self._selection.targets) * (stop - start))
        while start < stop:
            multiplied = start < MULTIPLIED
            end = min(stop, start + (BLOCK if multiplied else MOST_AT_ONCE))
            self.products.append(differentiable(self._function, partial(self._pulled, start, end, multiplied)))
            start = end
        self.counts[:] = stop
        require_dependence(self.mean, self._selection)

    def _pulled(self, start: int, stop: int, multiplied: bool) -> Tensor:
        """Products of the directions from `start` to `stop`, of all pairs or of each with itself."""
        layers = []
        for layer in self._selection.layers:
            width = self._function.widths[layer - 1]
            targets = []
            for target in self._selection.targets:
                directions = orthonormal_directions(width, start, stop, (self._seed, layer, target)).to(self._function.x)
                pulled = torch.cat(list(self._pullback.pull(layer, target, directions))).transpose(0, 1)
                pulled = pulled.to(torch.promote_types(pulled.dtype, torch.float32))
                other = pulled.mT if multiplied else pulled[..., None]
                left = pulled if multiplied else pulled[:, :, None]
                targets.append((left @ other).reshape(self.sources, stop - start, -1).double().cpu().movedim(0, -1))
            layers.append(torch.stack(targets))
        return torch.stack(layers)


def reverse_sampling_is_cheaper(function: InputFunction, selection: Selection) -> bool:
    """Whether gradients of the targets pass through fewer layers than changes of the sources; a gradient costs two of these."""
    return 2 * len(selection.targets) * sum(selection.layers) < len(function.x) * max(selection.layers)


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
