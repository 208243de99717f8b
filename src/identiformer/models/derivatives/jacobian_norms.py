"""Norms of the blocks ∂e_target/∂x_source of a model's Jacobian: from directions or whole, forward or in reverse."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.equations.attribution.random_directions import orthonormal_directions
from identiformer.errors import InputError
from identiformer.models.derivatives.input_function import Entry, differentiable
from identiformer.models.derivatives.tangents import Pushed, find_sweep
from identiformer.progress import WorkBar

NORMS = ("frobenius", "spectral", "summed")

MOST_AT_ONCE = 32
"""Tangents in one batch: more do not make matrix products faster, and outgrow the caches."""
ROUNDING = 1e-5
"""A sum of terms that cancel, relative to one of terms that do not: float32 leaves less."""


@dataclass(frozen=True)
class Asked:
    """The blocks that are asked for: layers counted from 1, targets from 0, every source."""

    layers: tuple[int, ...]
    targets: tuple[int, ...]


class ForwardNorms:
    """Sums over directions of ‖Jr‖² and of its square, for every layer and target in one sweep per probe of a source."""

    def __init__(self, entry: Entry, asked: Asked, seed: int, memory: int, heads: bool, bar: WorkBar) -> None:
        self._asked, self._seed, self._bar, self._point = asked, seed, bar, entry.point
        self.sweep = find_sweep(entry, heads)
        self._at_once = _that_fit(memory, self.sweep.kept, self.sweep.per_tangent)
        self.sources, self.width = entry.point.shape
        self.sums = torch.zeros(2, len(asked.layers), len(asked.targets), self.sources, dtype=torch.float64)
        self.head_sums: Tensor | None = None
        self.counts = torch.zeros(self.sources, dtype=torch.int64)

    @torch.no_grad()
    def extend(self, wanted: Tensor) -> None:
        """Bring each source to the number of directions that is wanted; as many as the width make its norms exact."""
        self._bar.expect(int((wanted - self.counts).clamp(min=0).sum()))
        for sources, directions in self._batches(wanted):
            for place, pushed in _asked_layers(self._asked, self.sweep.push(sources, directions)):
                self._add(self.sums[:, place], sources, pushed.first, pushed.hidden)
                if pushed.head_outputs is not None:
                    self._add(self._heads(pushed.head_outputs)[:, place], sources, pushed.first, pushed.head_outputs)
            self._bar.advance(len(sources))
        self.counts = torch.maximum(self.counts, wanted)
        _refuse_nonsense(self.sums[0], self._asked)

    def _batches(self, wanted: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Directions still to push, with their sources, as many at once as fit; skip those that reach no target."""
        sources, directions = torch.empty(0, dtype=torch.int64), self._point.new_empty(0, self.width)
        for source in (wanted > self.counts).nonzero()[:, 0].tolist():
            taken, stop = int(self.counts[source]), int(wanted[source])
            if self.sweep.causal and source > max(self._asked.targets):
                self._bar.advance(stop - taken)
                continue
            new = orthonormal_directions(self.width, taken, stop, (self._seed, source)).to(self._point)
            sources, directions = torch.cat([sources, torch.full((len(new),), source)]), torch.cat([directions, new])
            while len(sources) >= self._at_once:
                yield sources[: self._at_once], directions[: self._at_once]
                sources, directions = sources[self._at_once :], directions[self._at_once :]
        if len(sources):
            yield sources, directions

    def _add(self, sums: Tensor, sources: Tensor, first: int, tangents: Tensor) -> None:
        """Add ‖t‖² and ‖t‖⁴ of each tangent to those of its source: sums are (moment …others target source)."""
        squared = torch.linalg.vector_norm(tangents, dim=-1).double().square().cpu()
        everywhere = squared.new_zeros(*squared.shape[:-1], self.sources)
        everywhere[..., first:] = squared
        asked = everywhere[..., list(self._asked.targets)].movedim(0, -1)
        sums[0].index_add_(-1, sources, asked)
        sums[1].index_add_(-1, sources, asked.square())

    def _heads(self, outputs: Tensor) -> Tensor:
        if self.head_sums is None:
            moments, layers, targets, sources = self.sums.shape
            self.head_sums = self.sums.new_zeros(moments, layers, outputs.shape[1], targets, sources)
        return self.head_sums


def _that_fit(memory: int, kept: int, each: int) -> int:
    """How many directions go through at once within so many bytes."""
    fit = (memory - kept) // each
    if fit < 1:
        raise InputError(
            f"expected at least {(kept + each) / 2**20:.0f} MiB of memory, which a single direction needs on "
            f"a text of this length, got {memory / 2**20:.0f} MiB; allow more, or shorten the text."
        )
    return min(fit, MOST_AT_ONCE)


def _asked_layers(asked: Asked, layers: Iterator[Pushed]) -> Iterator[tuple[int, Pushed]]:
    """Where each layer that is asked for goes, and what it is; none behind the last of them."""
    for layer, pushed in zip(range(1, max(asked.layers) + 1), layers, strict=False):
        yield from ((place, pushed) for place, wanted in enumerate(asked.layers) if wanted == layer)


def _refuse_nonsense(norms: Tensor, asked: Asked) -> None:
    for layer, each in zip(asked.layers, norms, strict=True):
        if not bool(each.isfinite().all()):
            raise InputError(f"expected finite derivatives, got NaN or infinity at layer {layer}; check the model's weights.")
        dead = (each == 0).all(-1)
        if bool(dead.any()):
            raise InputError(
                f"expected hidden vectors that depend on the input, but at layer {layer} that of position "
                f"{asked.targets[int(dead.int().argmax())]} does not: its derivatives are all zero, so that no token has a share "
                "in it; check the model's weights, or ask for other layers and targets."
            )


def exact_norms(entry: Entry, asked: Asked, norm: str, memory: int, bar: WorkBar) -> Tensor:
    """Norms of whole blocks, (layer target source)."""
    if norm == "summed" or _reverse_is_cheaper(entry, asked):
        norms = _reverse_norms(entry, asked, norm, memory, bar)
    elif norm == "spectral":
        norms = _forward_spectral(entry, asked, memory, bar)
    else:
        forward = ForwardNorms(entry, asked, 0, memory, False, bar)
        forward.extend(torch.full((forward.sources,), forward.width))
        norms = (forward.sums[0] / forward.width).sqrt()
    _refuse_nonsense(norms, asked)
    return norms


def _reverse_is_cheaper(entry: Entry, asked: Asked) -> bool:
    """Whether gradients of the targets pass fewer layers than changes of the sources: each layer's pass all below it."""
    sources, width = entry.point.shape
    reverse = len(asked.targets) * sum(layer * entry.widths[layer - 1] for layer in asked.layers)
    return reverse < sources * width * max(asked.layers)


@torch.no_grad()
def _forward_spectral(entry: Entry, asked: Asked, memory: int, bar: WorkBar) -> Tensor:
    """Largest singular values, which need the columns of whole blocks at hand: of as many targets at a time as fit."""
    sweep = find_sweep(entry, heads=False)
    sources, width = entry.point.shape
    at_once = _that_fit(memory // 2, sweep.kept, sweep.per_tangent)
    largest = max(entry.widths)
    fit = max(1, memory // 2 // (len(asked.layers) * largest * width * entry.point.element_size()))
    norms = torch.zeros(len(asked.layers), len(asked.targets), sources, dtype=torch.float64)
    basis = torch.eye(width).to(entry.point)
    bar.expect(sources * width * -(-len(asked.targets) // fit))
    for group in torch.arange(len(asked.targets)).split(fit):
        positions = torch.tensor(asked.targets)[group]
        for source in range(sources):
            columns = entry.point.new_zeros(len(asked.layers), len(group), width, largest)
            for rows in torch.arange(width).split(at_once):
                pushes = sweep.push(torch.full((len(rows),), source), basis[rows])
                for place, (first, hidden, _) in _asked_layers(asked, pushes):
                    reached = positions >= first
                    columns[place, reached, rows[0] : rows[-1] + 1, : hidden.shape[-1]] = hidden[
                        :, positions[reached] - first
                    ].transpose(0, 1)
                bar.advance(len(rows))
            norms[:, group, source] = _largest_singular_value(columns)
    return norms


def _largest_singular_value(blocks: Tensor) -> Tensor:
    """σ_1 of each matrix, from the eigenvalues of its Gram matrix: float64 keeps what squaring loses."""
    wide = blocks.double()
    gram = wide @ wide.mT if wide.shape[-2] <= wide.shape[-1] else wide.mT @ wide
    return torch.linalg.eigvalsh(gram)[..., -1].clamp(min=0).sqrt().cpu()


def _reverse_norms(entry: Entry, asked: Asked, norm: str, memory: int, bar: WorkBar) -> Tensor:
    """Rows of one target's blocks at a time: gradients of its hidden vector's components, or of their sum."""
    change = entry.unchanged.requires_grad_()
    with torch.enable_grad():
        hidden = entry.run(change).hidden
    at_once = _that_fit(memory, 0, entry.working_bytes)

    def gradients(layer: int, target: int, directions: Tensor) -> Iterator[Tensor]:
        with torch.enable_grad():
            state = hidden[layer - 1][target]
        for part in directions.split(at_once):
            (pulled,) = torch.autograd.grad(state, change, part, retain_graph=True, is_grads_batched=True)
            bar.advance(len(part))
            yield pulled

    def block_norms(layer: int, target: int) -> Tensor:
        width = entry.widths[layer - 1]
        if norm == "summed":
            return _summed(torch.cat(list(gradients(layer, target, _sum_and_control(width).to(entry.point)))), layer)
        rows = gradients(layer, target, torch.eye(width).to(entry.point))
        if norm == "spectral":
            return _largest_singular_value(torch.cat(list(rows)).transpose(0, 1))
        return sum((part.double().square().sum((0, -1)) for part in rows), torch.zeros(len(entry.point))).sqrt().cpu()

    bar.expect(len(asked.targets) * sum(2 if norm == "summed" else entry.widths[layer - 1] for layer in asked.layers))
    return differentiable(
        entry,
        lambda: torch.stack([torch.stack([block_norms(layer, target) for target in asked.targets]) for layer in asked.layers]),
    )


def _sum_and_control(width: int) -> Tensor:
    """The sum of all components, and one of as many with random signs."""
    signs = torch.randint(2, (width,), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    return torch.stack([torch.ones(width), signs])


def _summed(gradients: Tensor, layer: int) -> Tensor:
    """‖Σ_a ∂e_a/∂x‖ for each source; where it is nothing but rounding the sum does not depend on the input."""
    own, control = gradients.double().norm(dim=-1).cpu()
    if float(own.norm()) < ROUNDING * float(control.norm()):
        raise InputError(
            f"the summed hidden vector of layer {layer} does not depend on the input, as behind a LayerNorm with equal weights; "
            f"expected norm='frobenius' or 'spectral'."
        )
    return own
