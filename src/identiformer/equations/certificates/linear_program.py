"""Linear programs that each start from the vertex of the last, with every optimum bounded by its dual."""

from dataclasses import dataclass

import highspy
import numpy as np
from jaxtyping import Float64

Vector = Float64[np.ndarray, " variable"]
Matrix = Float64[np.ndarray, "row variable"]
Bounds = Float64[np.ndarray, " row"]

# Only costs and row bounds change from one program to the next, so the last vertex remains a vertex: primal simplex continues
# from there, where presolve or dual simplex would start over. On a degenerate vertex it can cycle forever, hence the limit;
# dual simplex then starts from scratch.
PRIMAL, DUAL = 4, 1
STEPS_PER_VARIABLE = 20
OPTIONS = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "simplex_scale_strategy": 0,  # the rows have length one
    "simplex_price_strategy": 0,  # and are dense
    "threads": 1,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


@dataclass(frozen=True)
class Optimum:
    """The best point that the solver found, and a certified bound over all points."""

    point: Vector
    value: float
    bound: float
    """No point within the margin of the set has a larger value: `dual_bound` proves it without trust in the solver."""
    multipliers: Bounds


class LinearProgram:
    """max c·x over x in [0, ceiling] with lower ≤ Rx ≤ upper, for fixed R and a sequence of c and bounds."""

    def __init__(self, rows: Matrix, ceiling: Vector) -> None:
        self.rows, self.ceiling = rows, ceiling
        count, variables = rows.shape
        program = highspy.HighsLp()
        program.num_row_, program.num_col_ = count, variables
        program.col_cost_ = np.zeros(variables)
        program.col_lower_, program.col_upper_ = np.zeros(variables), ceiling
        program.row_lower_ = program.row_upper_ = np.zeros(count)
        column, row = np.nonzero(rows.T)
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.searchsorted(column, np.arange(variables + 1))
        program.a_matrix_.index_, program.a_matrix_.value_ = row, rows[row, column]
        self._solver = highspy.Highs()
        for name, value in OPTIONS.items():
            self._solver.setOptionValue(name, value)
        self._solver.setOptionValue("simplex_iteration_limit", STEPS_PER_VARIABLE * (count + variables))
        self._solver.passModel(program)
        self._columns, self._rows = np.arange(variables, dtype=np.int32), np.arange(count, dtype=np.int32)

    def limit(self, ceiling: Vector) -> None:
        """Change the ceiling, such as to 0 for variables that may not be used."""
        if not np.array_equal(ceiling, self.ceiling):
            self.ceiling = ceiling
            change_bounds = self._solver.changeColsBounds  # pyright: ignore[reportAttributeAccessIssue]  (missing in its stubs)
            change_bounds(len(ceiling), self._columns, np.zeros(len(ceiling)), ceiling)

    def maximize(self, cost: Vector, lower: Bounds, upper: Bounds, margin: Bounds | float = 0.0) -> Optimum | None:
        """The largest c·x with lower ≤ Rx ≤ upper, and a bound that holds from lower - margin to upper + margin.

        None where the solver finds no optimum, warm or cold.
        """
        change_bounds = self._solver.changeRowsBounds  # pyright: ignore[reportAttributeAccessIssue]  (missing in its stubs)
        change_bounds(len(lower), self._rows, lower, upper)
        self._solver.changeColsCost(len(cost), self._columns, -cost)
        if not (self._solved_by(PRIMAL) or self._solved_by(DUAL)):
            return None
        solution = self._solver.getSolution()
        point, multipliers = np.array(solution.col_value), -np.array(solution.row_dual)
        bound = dual_bound(cost, self.rows, lower - margin, upper + margin, self.ceiling, multipliers)
        return Optimum(point, float(cost @ point), float(bound), multipliers)

    def _solved_by(self, simplex: int) -> bool:
        self._solver.setOptionValue("simplex_strategy", simplex)
        self._solver.run()
        solved = self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        if not solved:
            self._solver.clearSolver()
        return solved


def dual_bound(
    cost: Float64[np.ndarray, "*#many variable"],
    rows: Matrix,
    lower: Float64[np.ndarray, "*#many row"],
    upper: Float64[np.ndarray, "*#many row"],
    ceiling: Float64[np.ndarray, "*#many variable"],
    multipliers: Float64[np.ndarray, "*#many row"],
    radii: Float64[np.ndarray, "*#many row"] | float = 0.0,
) -> Float64[np.ndarray, "*many"] | np.float64:
    """An upper bound on c·x over x in [0, ceiling] with lower ≤ Rx ≤ upper, by weak duality from any multipliers y.

    c·x = y·Rx + (c - yR)·x ≤ Σᵢ max(yᵢ·lowerᵢ, yᵢ·upperᵢ) + Σⱼ ceilingⱼ·(c - yR)ⱼ₊, plus the rounding of float64.
    One y bounds many programs with the same R, whatever their costs, bounds and ceilings. With radii, Rx may leave the box by a
    vector of the ellipsoid with these semi-axes, which adds ‖y∘radii‖.

    >>> one = np.ones(1)
    >>> float(dual_bound(one, np.array([[2.0]]), 0 * one, one, 9 * one, 0.5 * one).round(9))  # max x, 0 ≤ 2x ≤ 1
    0.5
    """
    ends = np.maximum(multipliers * lower, multipliers * upper)
    surplus = np.maximum(cost - multipliers @ rows, 0.0)
    magnitude = np.abs(multipliers)
    largest = np.maximum(np.abs(lower), np.abs(upper)) + radii
    size = _dot(magnitude, largest) + _dot(np.abs(cost) + magnitude @ np.abs(rows), ceiling)
    rounding = (len(rows) + rows.shape[1]) * np.finfo(np.float64).eps * size
    return ends.sum(-1) + np.linalg.norm(multipliers * radii, axis=-1) + _dot(surplus, ceiling) + rounding


def _dot(first: np.ndarray, second: np.ndarray) -> np.ndarray | np.float64:
    return second @ first if first.ndim == 1 else first @ second
