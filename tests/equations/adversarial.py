"""Heads designed to break certificates, and rows with the same output by independent methods.

A row counts as one with the same output by the definition alone: ‖(a' - a)V‖ in extended precision, against ε‖aV‖, or,
without a tolerance, against 64 float64 roundings of V.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from scipy.optimize import linprog

VALUES = (
    "ill-conditioned",
    "nearly repeated",
    "repeated",
    "some zero",
    "all zero",
    "collinear",
    "deficient",
    "bfloat16",
    "float16",
    "large bias",
    "one outlier",
    "generic",
)
ROWS = ("softmax", "peaked", "underflowing", "one hot", "uniform", "with zeros")
SCALES = (1.0, 1.0, 1e-300, 1e-200, 1e-30, 1e30, 1e200, 1e300)
TOLERANCES = (0.0, 0.0, 1e-12, 1e-7, 1e-4, 1e-2)


@dataclass(frozen=True)
class Head:
    """One row over its visible keys; `number` reproduces it."""

    number: int
    kind: str
    row: np.ndarray
    values: np.ndarray
    tolerance: float
    sink: bool
    keys: list[int]

    @property
    def precision(self):
        return {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(self.kind, torch.float64)

    def change(self, other):
        """‖(a' - a)V‖ in extended precision, in units of the largest entry of V."""
        scaled = (self.values / (np.abs(self.values).max() or 1.0)).astype(np.longdouble)
        moved = (other.astype(np.longdouble) - self.row) @ scaled
        return float(np.sqrt((moved**2).sum())), float(np.sqrt(((self.row.astype(np.longdouble) @ scaled) ** 2).sum()))

    @property
    def rounding(self):
        scaled = self.values / (np.abs(self.values).max() or 1.0)
        return 64 * max(scaled.shape) * np.finfo(np.float64).eps * np.linalg.norm(scaled, 2)

    def accepts(self, other):
        """Whether a row is attention with the same output, by the definition."""
        moved, length = self.change(other)
        slack = 4 * len(other) * np.finfo(np.float64).eps
        total = self.row.sum()
        fits = other.sum() <= max(total, 1.0) + slack if self.sink else abs(other.sum() - total) <= slack
        return bool(moved <= self.tolerance * length + (0.0 if self.tolerance else self.rounding) and (other >= 0).all() and fits)


def make_head(number):
    """The head with this number: kinds of values in turn, the rest random."""
    rng = np.random.default_rng(number)
    kind = VALUES[number % len(VALUES)]
    keys, width = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 20])), int(rng.choice([1, 2, 3, 4, 8, 16]))
    sink = bool(rng.random() < 0.2)
    row = (rng.uniform(0.3, 0.95) if sink else 1.0) * _row(str(rng.choice(ROWS)), keys, rng)
    values = _values(kind, keys, width, rng)
    scale = rng.choice(SCALES)
    values = values if scale == 1 else values / (np.abs(values).max() or 1.0) * scale
    chosen = rng.choice(keys, min(keys, 3), replace=False).tolist()
    tolerance = float(rng.choice(TOLERANCES))
    return Head(number, kind, row, values, tolerance, sink, sorted({int(row.argmax()), *chosen}))


def _row(kind, keys, rng):
    if kind == "one hot":
        return np.eye(keys)[rng.integers(keys)]
    if kind == "uniform":
        return np.full(keys, 1 / keys)
    row = np.exp({"peaked": 8.0, "underflowing": 300.0}.get(kind, 1.0) * np.minimum(rng.normal(size=keys), 2))
    if kind == "with zeros":
        row[rng.permutation(keys)[: keys // 2]] = 0
    return row / row.sum()


def _values(kind, keys, width, rng):
    values = rng.normal(size=(keys, width))
    side = min(keys, width)
    few = values[rng.integers(0, max(keys // 2, 1), size=keys)]
    if kind == "ill-conditioned":
        left, right = np.linalg.qr(values).Q[:, :side], np.linalg.qr(rng.normal(size=(width, side))).Q
        return left * np.logspace(0, -rng.uniform(4, 12), side) @ right.T
    if kind == "nearly repeated":
        return few + 10.0 ** -rng.uniform(9, 14.5) * values
    if kind == "collinear":
        return rng.normal(size=(keys, 1)) * values[:1] + 10.0 ** -rng.uniform(8, 20) * rng.normal(size=(keys, width))
    if kind == "deficient":
        return values @ np.diag(np.arange(width) > rng.integers(width))
    if kind in ("bfloat16", "float16"):
        return torch.tensor(few + 0.01 * values).to(getattr(torch, kind)).double().numpy()
    others = {
        "repeated": few,
        "some zero": values * (rng.random((keys, 1)) < 0.5),
        "all zero": 0 * values,
        "large bias": 10.0 ** rng.uniform(2, 10) * values[:1] + values,
        "one outlier": values * 10.0 ** (9 * np.eye(keys)[:, :1]),
    }
    return others.get(kind, values)


def rows_with_the_same_output(head):
    """Rows that reach far, each accepted by the definition: from cold programs, from exact vertices, and at random."""
    rng = np.random.default_rng(head.number + 10**6)
    candidates = [*_by_scipy(head), *_near(head, rng)]
    if len(head.row) <= 6 and head.values.shape[1] <= 3 and not head.sink:
        candidates += _exact_vertices(head)
    for candidate in candidates:
        if head.accepts(candidate):
            yield candidate


def _moderate(head):
    return head.values / (np.abs(head.values).max() or 1.0)


def _by_scipy(head):
    """Optima of cold programs over boxes around the set, moved into it."""
    values = _moderate(head)
    _, sigma, right = np.linalg.svd(values, full_matrices=False)
    strong = sigma > 1e-17 * (sigma[0] or 1.0)
    through = values @ right[strong].T / np.maximum(sigma[strong], 1e-300)
    length = np.linalg.norm(head.row @ values)
    for share in (1.0, 0.5):
        half = share * (head.tolerance * length + (0 if head.tolerance else head.rounding)) / np.maximum(sigma[strong], 1e-300)
        half = np.minimum(half, 2.0)
        bounds = {"A_ub": np.vstack([through.T, -through.T]), "b_ub": np.concatenate([half, half])}
        bounds["b_ub"] = bounds["b_ub"] + np.concatenate([through.T @ head.row, -through.T @ head.row])
        ones = np.ones((1, len(head.row)))
        if head.sink:
            bounds = {"A_ub": np.vstack([bounds["A_ub"], ones]), "b_ub": np.append(bounds["b_ub"], max(1.0, head.row.sum()))}
        else:
            bounds |= {"A_eq": ones, "b_eq": [head.row.sum()]}
        if not bounds["A_ub"].size:
            bounds = {name: bound for name, bound in bounds.items() if name.endswith("eq")}
        for key, sign in itertools.product(head.keys, (1, -1)):
            options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
            found = linprog(sign * np.eye(len(head.row))[key], **bounds, options=options)
            if found.x is not None:
                yield from _moved_inside(head, found.x)


def _moved_inside(head, point):
    """The point clipped to nonnegative weights with the sum of a, refined on its keys, and shrunk until accepted."""
    total = head.row.sum()

    def clean(weights):
        weights = np.maximum(weights, 0.0)
        if head.sink and weights.sum() <= max(total, 1.0):
            return weights
        return weights * ((max(total, 1.0) if head.sink else total) / (weights.sum() or 1.0))

    point = clean(point)
    yield point
    support = point > 0
    seen = np.hstack([_moderate(head), np.ones((len(point), 0 if head.sink else 1))])[support]
    refined = point.copy()
    for _ in range(2):
        missing = (head.row - refined) @ np.hstack([_moderate(head), np.ones((len(point), 0 if head.sink else 1))])
        refined[support] += np.linalg.lstsq(seen.T, missing, rcond=1e-15)[0]
    yield clean(refined)
    moved, length = head.change(point)
    allowed = head.tolerance * length + (0 if head.tolerance else head.rounding)
    if moved > allowed:
        yield head.row + 0.999 * allowed / moved * (point - head.row)


def _near(head, rng):
    """Rows in random directions, as far as the definition allows."""
    values = _moderate(head)
    left, _, _ = np.linalg.svd(values, full_matrices=True)
    for number in range(6):
        direction = left[:, -1 - number % len(left)] if number < 3 else rng.normal(size=len(head.row))
        if not head.sink:
            direction = direction - direction.mean()
        shrinking = direction < -1e-12
        if shrinking.any():
            reach = (head.row[shrinking] / -direction[shrinking]).min()
            moved, length = head.change(head.row + direction)
            allowed = head.tolerance * length + (0 if head.tolerance else head.rounding)
            other = np.maximum(head.row + 0.999 * min(reach, allowed / (moved or 1e-300)) * direction, 0.0)
            yield other if head.sink else other * (head.row.sum() / other.sum())


def _exact_vertices(head):
    """Every vertex of {a' ≥ 0 : a'V = aV, Σa' = Σa} in rational arithmetic, with floats as exact numbers."""
    row = [Fraction(weight) for weight in head.row]
    columns = [[Fraction(value) for value in key] + [Fraction(1)] for key in head.values.tolist()]
    target = [sum(a * column[k] for a, column in zip(row, columns, strict=True)) for k in range(len(columns[0]))]
    for size in range(1, len(target) + 1):
        for keys in itertools.combinations(range(len(row)), size):
            weights = _solve([columns[key] for key in keys], target)
            if weights is not None and min(weights) >= 0:
                vertex = np.zeros(len(row))
                vertex[list(keys)] = [float(weight) for weight in weights]
                yield vertex * (head.row.sum() / vertex.sum())


def _solve(columns, target):
    """The only w with Σ w_i·column_i = target, by elimination; None where there is none or more than one."""
    system = [[column[k] for column in columns] + [target[k]] for k in range(len(target))]
    for place in range(len(columns)):
        pivot = next((r for r in range(place, len(system)) if system[r][place]), None)
        if pivot is None:
            return None
        system[place], system[pivot] = system[pivot], system[place]
        for r in range(len(system)):
            if r != place and system[r][place]:
                factor = system[r][place] / system[place][place]
                system[r] = [x - factor * y for x, y in zip(system[r], system[place], strict=True)]
    if any(line[-1] for line in system[len(columns) :]):
        return None
    return [system[r][-1] / system[r][r] for r in range(len(columns))]
