"""Norms of the blocks ∂e_target/∂x_source of a model's Jacobian: estimated or exact, in forward or reverse mode."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.equations.attribution.hidden_token import orthonormal_directions
from identiformer.errors import InputError
from identiformer.models.derivatives.input_function import InputFunction, differentiable
from identiformer.models.derivatives.tangents import LayerTangents, find_pushforward
from identiformer.progress import WorkBar

NORMS = ("frobenius", "spectral", "summed")

MOST_AT_ONCE = 32
"""Tangents per batch: more do not make matrix products faster, and outgrow the caches."""
ROUNDING = 1e-5
"""A sum whose terms cancel, relative to one whose terms do not: float32 leaves less."""


@dataclass(frozen=True)
class Selection:
    """The Jacobian blocks to compute: these layers (from 1) and targets (from 0), every source."""

    layers: tuple[int, ...]
    targets: tuple[int, ...]


class ForwardNorms:
    """Sums of ‖Jr‖² and ‖Jr‖⁴ over directions r of each source; one forward pass per direction serves all layers and targets."""

    def __init__(self, function: InputFunction, selection: Selection, seed: int, memory: int, heads: bool, bar: WorkBar) -> None:
        self._selection, self._seed, self._bar, self._x = selection, seed, bar, function.x
        self.pushforward = find_pushforward(function, heads)
        self._at_once = _batch_size(memory, self.pushforward.kept, self.pushforward.per_tangent)
        self.sources, self.width = function.x.shape
        self.sums = torch.zeros(2, len(selection.layers), len(selection.targets), self.sources, dtype=torch.float64)
        self.head_sums = self.sums.new_zeros(2, len(selection.layers), 0, len(selection.targets), self.sources)
        self.counts = torch.zeros(self.sources, dtype=torch.int64)

    @torch.no_grad()
    def extend(self, counts: Tensor) -> None:
        """Add directions until each source has as many as `counts`; with as many as the width, its norms are exact."""
        self._bar.expect(int((counts - self.counts).clamp(min=0).sum()))
        for sources, directions in self._batches(counts):
            for index, (first, hidden, heads) in _selected(self._selection, self.pushforward.push(sources, directions)):
                self._add(self.sums[:, index], sources, first, hidden)
                if heads is not None:
                    if not self.head_sums.shape[2]:
                        moments, layers, _, targets, positions = self.head_sums.shape
                        self.head_sums = self.sums.new_zeros(moments, layers, heads.shape[1], targets, positions)
                    self._add(self.head_sums[:, index], sources, first, heads)
            self._bar.advance(len(sources))
        self.counts = torch.maximum(self.counts, counts)
        _require_dependence(self.sums[0], self._selection)

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


def _batch_size(memory: int, kept: int, per_tangent: int) -> int:
    """Return how many tangents can be pushed at once within this many bytes."""
    fit = (memory - kept) // per_tangent
    if fit < 1:
        raise InputError(
            f"expected at least {(kept + per_tangent) / 2**20:.0f} MiB of memory, which a single direction needs on "
            f"a text of this length, got {memory / 2**20:.0f} MiB; allow more, or shorten the text."
        )
    return min(fit, MOST_AT_ONCE)


def _selected(selection: Selection, layers: Iterator[LayerTangents]) -> Iterator[tuple[int, LayerTangents]]:
    """Yield each selected layer with its index in the selection, and compute none beyond the last of them."""
    for layer, tangents in zip(range(1, max(selection.layers) + 1), layers, strict=False):
        yield from ((index, tangents) for index, selected in enumerate(selection.layers) if selected == layer)


def _require_dependence(norms: Tensor, selection: Selection) -> None:
    """Raise InputError unless all norms are finite and every target depends on some source."""
    for layer, of_layer in zip(selection.layers, norms, strict=True):
        if not bool(of_layer.isfinite().all()):
            raise InputError(f"expected finite derivatives, got NaN or infinity at layer {layer}; check the model's weights.")
        independent = (of_layer == 0).all(-1)
        if bool(independent.any()):
            raise InputError(
                f"expected hidden vectors that depend on the input, but at layer {layer} that of position "
                f"{selection.targets[int(independent.int().argmax())]} has only zero derivatives, so no token contributes to it; "
                "check the model's weights, or choose other layers and targets."
            )


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
    _require_dependence(norms, selection)
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
    at_once = _batch_size(memory // 2, pushforward.kept, pushforward.per_tangent)
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
                for index, (first, hidden, _) in _selected(selection, layers):
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
    change = function.no_change.requires_grad_()
    with torch.enable_grad():
        hidden = function.run(change).hidden
    at_once = _batch_size(memory, 0, function.working_bytes)

    def gradients(layer: int, target: int, directions: Tensor) -> Iterator[Tensor]:
        with torch.enable_grad():
            state = hidden[layer - 1][target]
        for batch in directions.split(at_once):
            (pulled,) = torch.autograd.grad(state, change, batch, retain_graph=True, is_grads_batched=True)
            bar.advance(len(batch))
            yield pulled

    def block_norms(layer: int, target: int) -> Tensor:
        width = function.widths[layer - 1]
        if norm == "summed":
            signs = torch.randint(2, (width,), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
            sum_and_control = torch.stack([torch.ones(width), signs]).to(function.x)
            return _summed(torch.cat(list(gradients(layer, target, sum_and_control))), layer)
        rows = gradients(layer, target, torch.eye(width).to(function.x))
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
