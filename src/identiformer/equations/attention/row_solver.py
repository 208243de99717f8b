"""y = G_t^+ o_t for every row t, where G_t is the Gram matrix of the values that row t can see.

The effective weight on a visible key j is then y_t·v_j. Rows that see the same keys share one Gram matrix; rows that see
growing prefixes share one factorization per block of keys; rows of a sliding window have a Gram matrix each. Whatever
these cannot certify to have full rank is decided by singular values, row by row.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from identiformer.equations.attention.rank import bar_above_noise, by_singular_values, full_rank_bar, inverse_factor, row_space
from identiformer.equations.attention.visibility import Visibility

BLOCKS_AT_ONCE = 16  # of prefixes, solved together
GRAMS_AT_ONCE = 256  # of windows, held in memory together


@dataclass(frozen=True)
class RowSolution:
    """The solved rows of the heads that share one set of values."""

    y: Float64[Tensor, "query repeat width"]
    rank: Int64[Tensor, " query"]
    smallest: Float64[Tensor, " query"]
    """A lower bound on the smallest singular value kept in each row."""


def solve_rows(
    outputs: Float64[Tensor, "query repeat width"],
    values: Float64[Tensor, "key width"],
    visible: Visibility,
    precision: torch.dtype,
) -> RowSolution:
    """Solve every row of the heads that share these values, each against the keys that it can see."""
    solver = _Solver(outputs, values, precision)
    if visible.mask is not None:
        for queries, keys in visible.patterns():
            solver.shared(queries, values[keys])
    else:
        for queries, start in _chains(visible):
            stop = visible.stop[queries]
            if bool((start != start[0]).any() or (stop.diff() < 0).any()):
                solver.windows(queries, start, stop)
            elif bool((stop == stop[0]).all()):
                solver.shared(queries, values[start[0] : stop[0]])
            else:
                solver.prefixes(queries, values[start[0] : stop[-1]], stop - start[0])
    return RowSolution(solver.y, solver.rank, solver.smallest)


def _chains(visible: Visibility) -> list[tuple[Int64[Tensor, " chosen"], Int64[Tensor, " chosen"]]]:
    """Cut the queries into runs of growing prefixes; runs of one query each are joined: (queries, their starts)."""
    if visible.queries == 0:
        return []
    broken = (visible.start.diff() != 0) | (visible.stop.diff() < 0)
    edges = [0, *(broken.nonzero()[:, 0] + 1).tolist(), visible.queries]
    single = torch.tensor(edges).diff() == 1
    cuts = [0, *((~single[1:] | ~single[:-1]).nonzero()[:, 0] + 1).tolist(), len(single)]
    queries = [torch.arange(edges[low], edges[high]) for low, high in pairwise(cuts)]
    return [(rows, visible.start[rows]) for rows in queries]


def _even_runs(certain: Tensor, rows: Tensor) -> list[tuple[int, int]]:
    """Runs of certain blocks that have as many rows each, to be solved together: (first, last + 1)."""
    runs: list[tuple[int, int]] = []
    for number in (certain & (rows > 0)).nonzero()[:, 0].tolist():
        first, last = runs[-1] if runs else (0, -1)
        if last == number and last - first < BLOCKS_AT_ONCE and rows[first] == rows[number]:
            runs[-1] = (first, number + 1)
        else:
            runs.append((number, number + 1))
    return runs


class _Solver:
    """Fills y, rank and smallest, some rows at a time."""

    def __init__(self, outputs: Tensor, values: Tensor, precision: torch.dtype) -> None:
        self.outputs, self.values, self.precision = outputs, values, precision
        self.width = values.shape[-1]
        self.y = torch.empty_like(outputs)
        self.rank = torch.full((len(outputs),), self.width, device=values.device)
        self.smallest = torch.empty(len(outputs), dtype=torch.float64, device=values.device)

    def shared(self, queries: Tensor, seen: Tensor) -> None:
        """Rows that see the same keys: one row space serves them all."""
        space = row_space(seen, self.precision)
        self.y[queries] = (self.outputs[queries] @ space.whitening) @ space.whitening.mT
        self.rank[queries], self.smallest[queries] = space.rank, space.smallest

    def prefixes(self, queries: Tensor, values: Tensor, stop: Tensor) -> None:
        """Rows that see growing prefixes of `values`, by blocks of keys as wide as the head.

        Row t sees all blocks before its own, whose Gram matrix is G, and the first keys E_t of its own block. By
        Woodbury (G + E_t^T E_t)^{-1} = P - S_t^T S_t with P = G^{-1}, LL^T = I + EPE^T, S = L^{-1}EP: the factor of a
        leading block is the leading block of the factor, so one L serves every row of the block.
        """
        block = self.width
        blocks = torch.nn.functional.pad(values, (0, 0, 0, -len(values) % block)).unflatten(0, (-1, block))
        grams = (blocks.mT @ blocks).cumsum(0)
        inverse, smallest = inverse_factor(grams[:-1])
        # G_t - G is positive semidefinite: what proves full rank before the block proves it for every row in it.
        # The noise floor grows with the keys in float32 and falls with them in half precision: take the higher end.
        before = block * torch.arange(1, len(blocks), device=values.device)
        bars = [full_rank_bar(grams[1:], keys, self.width, self.precision) for keys in (before, before + block)]
        certain = smallest > torch.maximum(*bars)

        own = (stop - 1) // block
        seen = stop - own * block
        self._few_keys(queries[own == 0], blocks[0], seen[own == 0])
        for number in (~certain).nonzero()[:, 0].tolist():
            here = own == number + 1
            self._row_by_row(queries[here], values[: (number + 1) * block], blocks[number + 1], seen[here])
        for first, last in _even_runs(certain, own.bincount(minlength=len(blocks))[1:]):
            here = (own > first) & (own <= last)
            self._grow(queries[here], seen[here], inverse[first:last], blocks[first + 1 : last + 1])
            self.smallest[queries[here]] = smallest[own[here] - 1].sqrt()

    def _grow(self, queries: Tensor, seen: Tensor, inverse: Tensor, extra: Tensor) -> None:
        """Rows of blocks whose base is certain to have full rank, as many rows in each block."""
        before = inverse.mT @ inverse
        reach = extra @ before
        gram = reach @ extra.mT
        gram.diagonal(dim1=-2, dim2=-1).add_(1)
        correction = torch.linalg.solve_triangular(torch.linalg.cholesky(gram), reach, upper=False)
        rows = slice(int(queries[0]), int(queries[-1]) + 1)
        outputs = self.outputs[rows].unflatten(0, (len(extra), -1))
        stacked = outputs.flatten(1, 2)
        unseen = torch.arange(extra.shape[1], device=extra.device) >= seen[:, None, None]
        overlap = (stacked @ correction.mT).view(*outputs.shape[:3], -1).masked_fill_(unseen.unflatten(0, (len(extra), -1)), 0)
        y = torch.baddbmm(stacked @ before, overlap.flatten(1, 2), correction, alpha=-1)
        self.y[rows] = y.view(self.y[rows].shape)

    def _few_keys(self, queries: Tensor, values: Tensor, seen: Tensor) -> None:
        """Prefixes no longer than the head is wide, through K = VV^T, whose leading blocks K_t share one factor.

        Full row rank of the first t keys is certain where λ_min(K_t) ≥ 1/‖L_t^{-1}‖_F² exceeds the bar; the effective
        weights are then a = K_t^{-1}Vo, all of the row, and y = V^T K_t^{-1} a.
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
        count = torch.arange(1, len(values) + 1, device=values.device)
        bar = bar_above_noise(leading_top, gram.diagonal().cumsum(0), count, self.width, self.precision)
        certain = (smallest > bar)[seen - 1]

        rows, keys = queries[certain], seen[certain]
        unseen = torch.arange(len(values), device=values.device) >= keys[:, None, None]
        weights = ((self.outputs[rows] @ values.mT) @ inverse.mT).masked_fill_(unseen, 0) @ inverse
        self.y[rows] = ((weights @ inverse.mT).masked_fill_(unseen, 0) @ inverse) @ values
        self.rank[rows], self.smallest[rows] = keys, smallest[keys - 1].sqrt()
        self._by_singular_values(queries[~certain], values[:0], values, seen[~certain])

    def _row_by_row(self, queries: Tensor, base: Tensor, extra: Tensor, seen: Tensor) -> None:
        """Rows of a block whose base is not certain: each row's own Gram matrix, or else its singular values."""
        outer = (extra[:, :, None] * extra[:, None, :]).cumsum(0)
        certain = self._by_grams(queries, (base.mT @ base) + outer[seen - 1], len(base) + seen)
        self._by_singular_values(queries[~certain], base, extra, seen[~certain])

    def _by_grams(self, queries: Tensor, grams: Tensor, count: Tensor) -> Tensor:
        """Solve the rows whose own Gram matrix is certain to have full rank; say which these are."""
        inverse, smallest = inverse_factor(grams)
        certain = smallest > full_rank_bar(grams, count, self.width, self.precision)
        rows, inverse = queries[certain], inverse[certain]
        self.y[rows] = (self.outputs[rows] @ inverse.mT) @ inverse
        self.smallest[rows] = smallest[certain].sqrt()
        return certain

    def _by_singular_values(self, queries: Tensor, base: Tensor, extra: Tensor, seen: Tensor) -> None:
        """Rows that see `base` and their first keys of `extra`, by SVD; QR shortens base and keeps its singular values."""
        if not len(queries):
            return
        unseen = torch.arange(len(extra), device=extra.device) >= seen[:, None]
        shortened = torch.linalg.qr(base, mode="r").R if len(base) else base
        stacked = torch.cat(
            [shortened.expand(len(queries), -1, -1), extra.expand(len(queries), -1, -1).masked_fill(unseen[..., None], 0)], 1
        )
        whitening, self.rank[queries], self.smallest[queries] = by_singular_values(stacked, len(base) + seen, self.precision)
        self.y[queries] = (self.outputs[queries] @ whitening) @ whitening.mT

    def windows(self, queries: Tensor, start: Tensor, stop: Tensor) -> None:
        """Rows that each start elsewhere: a Gram matrix each, summed without subtraction."""
        for rows, low, high in zip(*(part.split(GRAMS_AT_ONCE) for part in (queries, start, stop)), strict=True):
            grams = torch.stack([self.values[a:b].mT @ self.values[a:b] for a, b in zip(low, high, strict=True)])
            certain = self._by_grams(rows, grams, high - low)
            for query, a, b in zip(rows[~certain], low[~certain], high[~certain], strict=True):
                self.shared(query[None], self.values[a:b])
