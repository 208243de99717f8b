"""y_t = G_t^+ o_t for every row t, where G_t is the Gram matrix of the values that row t can see.

The effective weight on a visible key j is then y_t·v_j. Five strategies share the work, each a function from head outputs to
solved rows: rows that see the same keys share one Gram matrix; rows that see growing prefixes share one factorization per
block of keys; the first rows, which see fewer keys than the head is wide, use VV^T; rows of a sliding window have one Gram
matrix each. Rows that these cannot prove to have full rank are decided by singular values, one at a time. Where the values
are precise to float64 and ill-conditioned, y_t·v_j would lose their digits, and the SVD gives the effective weights themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from identiformer.equations.attention.rank import (
    bar_above_noise,
    by_singular_values,
    full_rank_bar,
    inverse_factor,
    refine,
    row_space,
)
from identiformer.equations.attention.visibility import Visibility

BLOCKS_AT_ONCE = 16  # of prefixes, solved together
GRAMS_AT_ONCE = 256  # of windows, held in memory together
QUERIES_AT_ONCE = 128  # whose weights are held in memory together

Outputs = Float64[Tensor, "query repeat width"]
Matrix = Float64[Tensor, "key width"]
Base = Float64[Tensor, "base_key width"]
Rows = Int64[Tensor, " row"]


@dataclass(frozen=True)
class RowSolution:
    """The solved rows of the heads that share one group of values."""

    y: Float64[Tensor, "row repeat width"]
    rank: Int64[Tensor, " row"]
    smallest: Float64[Tensor, " row"]
    """A lower bound on the smallest singular value kept in each row."""
    weights: Float64[Tensor, "row repeat key"] | None = None
    """Effective weights in place of y, on the keys from the first visible one on."""


Solved = Iterator[tuple[Tensor | slice, RowSolution]]
"""Some rows and their solution."""


class EffectiveRows(NamedTuple):
    """Every row of the heads that share one group of values: a⊥_tj = y_t·v_j, or weights where y_t is 0."""

    y: Outputs
    rank: Int64[Tensor, " query"]
    smallest: Float64[Tensor, " query"]
    direct: Rows
    """The rows with weights."""
    weights: Float64[Tensor, "direct repeat key"]


def solve_rows(outputs: Outputs, values: Matrix, visible: Visibility, precision: torch.dtype) -> EffectiveRows:
    """Solve every row of the heads that share these values, each against the keys that it can see."""
    answer = _solve(outputs, values, visible, precision)
    if precision == torch.float64:  # refine y once, since the inverse of a Gram matrix squares the condition number
        rest = (
            torch.ones(len(outputs), dtype=torch.bool, device=values.device).index_fill_(0, answer.direct, False).nonzero()[:, 0]
        )
        for rows in rest.split(QUERIES_AT_ONCE):
            seen = visible.rows(rows)
            effective = (answer.y[rows] @ values.mT).masked_fill_(~seen.dense()[:, None], 0)
            answer.y[rows] += _solve(outputs[rows] - effective @ values, values, seen, torch.float32).y
    return answer


def _solve(outputs: Outputs, values: Matrix, visible: Visibility, precision: torch.dtype) -> EffectiveRows:
    y = torch.zeros_like(outputs)
    rank = torch.empty(len(outputs), dtype=torch.int64, device=values.device)
    smallest = torch.empty(len(outputs), dtype=torch.float64, device=values.device)
    direct, weights = [rank[:0]], [outputs.new_empty(0, outputs.shape[1], len(values))]
    for some, solution in _solve_each(outputs, values, visible, precision):
        rank[some], smallest[some] = solution.rank, solution.smallest
        if solution.weights is None:
            y[some] = solution.y
            continue
        direct.append(torch.as_tensor(some, device=values.device))
        first = 0 if visible.mask is not None else int(visible.start[some][0])
        own = solution.weights[..., : len(values) - first]
        weights.append(torch.nn.functional.pad(own, (first, len(values) - first - own.shape[-1])))
    return EffectiveRows(y, rank, smallest, torch.cat(direct), torch.cat(weights))


def _solve_each(outputs: Outputs, values: Matrix, visible: Visibility, precision: torch.dtype) -> Solved:
    """Choose a strategy for each run of rows."""
    if visible.mask is not None:
        for rows, keys in visible.patterns():
            solution = _same_keys(outputs, rows, values[keys], precision)
            if solution.weights is not None:
                everywhere = outputs.new_zeros(*solution.weights.shape[:2], len(values))
                solution = replace(solution, weights=everywhere.index_copy_(-1, keys, solution.weights))
            yield rows, solution
        return
    for rows in _runs(visible):
        start, stop = visible.start[rows], visible.stop[rows]
        if bool((start != start[0]).any() or (stop.diff() < 0).any()):
            yield from _windows(outputs, rows, values, start, stop, precision)
        elif bool((stop == stop[0]).all()):
            yield rows, _same_keys(outputs, rows, values[start[0] : stop[0]], precision)
        else:
            yield from _prefixes(outputs, rows, values[start[0] : stop[-1]], stop - start[0], precision)


def _runs(visible: Visibility) -> list[Rows]:
    """Cut the queries into runs that see growing prefixes; neighboring runs of one query each are joined."""
    if visible.queries == 0:
        return []
    broken = (visible.start.diff() != 0) | (visible.stop.diff() < 0)
    edges = [0, *(broken.nonzero()[:, 0] + 1).tolist(), visible.queries]
    single = torch.tensor(edges).diff() == 1
    cuts = [0, *((~single[1:] | ~single[:-1]).nonzero()[:, 0] + 1).tolist(), len(single)]
    return [torch.arange(edges[low], edges[high], device=visible.start.device) for low, high in pairwise(cuts)]


def _same_keys(outputs: Outputs, rows: Rows, values: Matrix, precision: torch.dtype) -> RowSolution:
    """Rows that see the same keys: one row space serves them all."""
    space = row_space(values, precision)
    whitened = outputs[rows] @ space.whitening
    weights = None
    if space.left is not None and precision == torch.float64:
        left = space.left[0]
        weights = refine(whitened, outputs[rows], values, left, space.whitening) @ left.mT
    return RowSolution(whitened @ space.whitening.mT, space.rank.expand(len(rows)), space.smallest.expand(len(rows)), weights)


def _windows(outputs: Outputs, rows: Rows, values: Matrix, start: Rows, stop: Rows, precision: torch.dtype) -> Solved:
    """Rows whose first keys differ: one Gram matrix each, summed without subtraction."""
    for some, low, high in zip(*(part.split(GRAMS_AT_ONCE) for part in (rows, start, stop)), strict=True):
        grams = torch.stack([values[a:b].mT @ values[a:b] for a, b in zip(low, high, strict=True)])
        certain, solution = _by_grams(outputs, some, grams, high - low, precision)
        yield some[certain], solution
        for row, a, b in zip(some[~certain], low[~certain], high[~certain], strict=True):
            yield row[None], _same_keys(outputs, row[None], values[a:b], precision)


def _prefixes(outputs: Outputs, rows: Rows, values: Matrix, stop: Rows, precision: torch.dtype) -> Solved:
    """Rows that see growing prefixes of `values`, by blocks of keys as wide as the head.

    Row t sees all blocks before its own, whose Gram matrix is G, and the first keys E_t of its own block.
    """
    block = values.shape[-1]
    blocks = torch.nn.functional.pad(values, (0, 0, 0, -len(values) % block)).unflatten(0, (-1, block))
    grams = (blocks.mT @ blocks).cumsum(0)
    inverse, smallest = inverse_factor(grams[:-1])
    # G_t - G is positive semidefinite: a proof of full rank before the block holds for every row in it.
    # The noise floor grows with the keys in float32 and falls with them in half precision: take the higher end.
    before = block * torch.arange(1, len(blocks), device=values.device)
    bars = [full_rank_bar(grams[1:], keys, block, precision) for keys in (before, before + block)]
    certain = smallest > torch.maximum(*bars)

    index = (stop - 1) // block  # of each row's own block
    count = stop - index * block
    yield from _few_keys(outputs, rows[index == 0], blocks[0], count[index == 0], precision)
    for number in (~certain).nonzero()[:, 0].tolist():
        here = index == number + 1
        base, extra = values[: (number + 1) * block], blocks[number + 1]
        yield from _row_by_row(outputs, rows[here], base, extra, count[here], precision)
    for first, last in _even_runs(certain, index.bincount(minlength=len(blocks))[1:]):
        here = (index > first) & (index <= last)
        some = slice(int(rows[here][0]), int(rows[here][-1]) + 1)
        y = _grow(outputs[some], count[here], inverse[first:last], blocks[first + 1 : last + 1])
        yield some, RowSolution(y, torch.full((len(y),), block, device=y.device), smallest[index[here] - 1].sqrt())


def _even_runs(certain: Bool[Tensor, " block"], rows: Int64[Tensor, " block"]) -> list[tuple[int, int]]:
    """Runs of certain blocks with equally many rows, to be solved together: (first, last + 1)."""
    runs: list[tuple[int, int]] = []
    for number in (certain & (rows > 0)).nonzero()[:, 0].tolist():
        first, last = runs[-1] if runs else (0, -1)
        if last == number and last - first < BLOCKS_AT_ONCE and rows[first] == rows[number]:
            runs[-1] = (first, number + 1)
        else:
            runs.append((number, number + 1))
    return runs


def _grow(
    outputs: Outputs, count: Rows, inverse: Float64[Tensor, "block width width"], extra: Float64[Tensor, "block key width"]
) -> Outputs:
    """Rows of blocks whose base provably has full rank, equally many in each block.

    By Woodbury (G + E_t^T E_t)^{-1} = P - S_t^T S_t with P = G^{-1}, LL^T = I + EPE^T, S = L^{-1}EP: the factor of a leading
    block is the leading block of the factor, so one L serves every row of the block.
    """
    before = inverse.mT @ inverse
    reach = extra @ before
    gram = reach @ extra.mT
    gram.diagonal(dim1=-2, dim2=-1).add_(1)
    correction = torch.linalg.solve_triangular(torch.linalg.cholesky(gram), reach, upper=False)
    by_block = outputs.unflatten(0, (len(extra), -1))
    stacked = by_block.flatten(1, 2)
    hidden = torch.arange(extra.shape[1], device=extra.device) >= count[:, None, None]
    overlap = (stacked @ correction.mT).view(*by_block.shape[:3], -1).masked_fill_(hidden.unflatten(0, (len(extra), -1)), 0)
    return torch.baddbmm(stacked @ before, overlap.flatten(1, 2), correction, alpha=-1).view(outputs.shape)


def _few_keys(outputs: Outputs, rows: Rows, values: Matrix, count: Rows, precision: torch.dtype) -> Solved:
    """Prefixes no longer than the head is wide, through K = VV^T, whose leading blocks K_t share one factor.

    The first t keys provably have full row rank where λ_min(K_t) ≥ 1/‖L_t^{-1}‖_F² exceeds the bar; the effective weights are
    then a = K_t^{-1}Vo, all of the row, and y = V^T K_t^{-1} a.
    """
    gram = values @ values.mT
    factor, failed = torch.linalg.cholesky_ex(gram)
    solid = len(values) if int(failed) == 0 else int(failed) - 1
    identity = torch.eye(solid, dtype=gram.dtype, device=gram.device)
    inverse = torch.zeros_like(gram)
    inverse[:solid, :solid] = torch.linalg.solve_triangular(factor[:solid, :solid], identity, upper=False)
    smallest = 1 / inverse.square().sum(-1).cumsum(0)
    smallest[solid:] = 0
    leading_top = gram.abs().cumsum(1).triu().amax(0)  # ‖K_t‖_∞
    leading = torch.arange(1, len(values) + 1, device=values.device)
    bar = bar_above_noise(leading_top, gram.diagonal().cumsum(0), leading, values.shape[-1], precision)
    certain = (smallest > bar)[count - 1]

    some, keys = rows[certain], count[certain]
    hidden = torch.arange(len(values), device=values.device) >= keys[:, None, None]
    weights = ((outputs[some] @ values.mT) @ inverse.mT).masked_fill_(hidden, 0) @ inverse
    y = ((weights @ inverse.mT).masked_fill_(hidden, 0) @ inverse) @ values
    yield some, RowSolution(y, keys, smallest[keys - 1].sqrt())
    yield from _by_singular_values(outputs, rows[~certain], values[:0], values, count[~certain], precision)


def _row_by_row(outputs: Outputs, rows: Rows, base: Base, extra: Matrix, count: Rows, precision: torch.dtype) -> Solved:
    """Rows that see `base` and the first keys of `extra`, one Gram matrix each, or else their singular values."""
    outer = (extra[:, :, None] * extra[:, None, :]).cumsum(0)
    certain, solution = _by_grams(outputs, rows, (base.mT @ base) + outer[count - 1], len(base) + count, precision)
    yield rows[certain], solution
    yield from _by_singular_values(outputs, rows[~certain], base, extra, count[~certain], precision)


def _by_grams(
    outputs: Outputs, rows: Rows, grams: Float64[Tensor, "row width width"], keys: Rows, precision: torch.dtype
) -> tuple[Bool[Tensor, " row"], RowSolution]:
    """Which rows have a Gram matrix of provably full rank, and the solution of those."""
    width = grams.shape[-1]
    inverse, smallest = inverse_factor(grams)
    certain = smallest > full_rank_bar(grams, keys, width, precision)
    inverse = inverse[certain]
    y = (outputs[rows[certain]] @ inverse.mT) @ inverse
    return certain, RowSolution(y, torch.full((len(y),), width, device=y.device), smallest[certain].sqrt())


def _by_singular_values(outputs: Outputs, rows: Rows, base: Base, extra: Matrix, count: Rows, precision: torch.dtype) -> Solved:
    """Rows that see `base` and the first keys of `extra`, by SVD; QR shortens base and keeps its singular values."""
    if not len(rows):
        return
    hidden = torch.arange(len(extra), device=extra.device) >= count[:, None]
    long, shortened = torch.linalg.qr(base) if len(base) else (base, base)
    stacked = torch.cat(
        [shortened.expand(len(rows), -1, -1), extra.expand(len(rows), -1, -1).masked_fill(hidden[..., None], 0)], 1
    )
    space = by_singular_values(stacked, len(base) + count, precision)
    assert space.left is not None
    whitened = outputs[rows] @ space.whitening
    weights = None
    if precision == torch.float64:
        whitened = refine(whitened, outputs[rows], stacked, space.left, space.whitening)
        short, own = (whitened @ space.left.mT).tensor_split([len(shortened)], -1)
        weights = torch.cat([short @ long.mT if len(base) else short, own], -1)
    yield rows, RowSolution(whitened @ space.whitening.mT, space.rank, space.smallest, weights)
