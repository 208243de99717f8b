"""Intervals of weights against the cold linear programs that their definition suggests."""

import time

import numpy as np
import torch
from scipy.optimize import linprog

import identiformer as idf
from benchmarks.harness import report, side_by_side
from benchmarks.prose import prose
from identiformer.equations import feasible_sets
from identiformer.equations.certificates.linear_program import dual_bound

KEYS, WIDTH, TOP, COLD_ROWS = 128, 64, 5, 8


def run() -> None:
    whole_row()
    whole_head()


def whole_row() -> None:
    """All 2n bounds of one row, exactly the same output: softmax weights, Gaussian values."""
    rng = np.random.default_rng(0)
    values, row = rng.normal(size=(KEYS, WIDTH)), np.exp(rng.normal(size=KEYS))
    row /= row.sum()
    augmented = np.hstack([values, np.ones((KEYS, 1))])
    everything = {"A_eq": np.linalg.qr(augmented).Q.T, "b_eq": row @ np.linalg.qr(augmented).Q}

    def cold():
        return [(linprog(cost, **everything).fun, -linprog(-cost, **everything).fun) for cost in np.eye(KEYS)]

    def ours():
        (_, _, feasible), *_ = feasible_sets(torch.tensor(row)[None], torch.tensor(values), tolerance=0.0)
        return [(found.low, found.high) for found in map(feasible.interval, np.eye(KEYS))]

    np.testing.assert_allclose(ours(), cold(), atol=1e-7)
    times = side_by_side({"ours": ours, "cold": cold}, 3, {"ours": 3})
    report("all bounds of a row of 128 keys: times faster than cold calls", times["cold"] / times["ours"], 4.5, False)


def whole_head() -> None:
    """The five largest weights of every row of a real head, to 1e-4 of the output; cold calls for some of its rows."""
    model = idf.load("minilm")
    trace = model.trace(prose(model.tokenizer, KEYS))
    layer, head = trace.layer(4), 3
    rows, width = len(trace.tokens), layer.values.shape[-1]
    weights = layer.weights[head].double().numpy()
    output = layer.values[head].double() @ idf.equations.projection_root(layer.projection[head : head + 1])[0]
    left, sigma, _ = np.linalg.svd(output.numpy(), full_matrices=False)

    def cold():
        found = []
        for row in weights[:: rows // COLD_ROWS][:COLD_ROWS]:
            half = 1e-4 * np.linalg.norm(row @ output.numpy()) / sigma
            box = {
                "A_ub": np.vstack([left.T, -left.T]),
                "b_ub": np.concatenate([row @ left + half, half - row @ left]),
                "A_eq": np.ones((1, rows)),
                "b_eq": [row.sum()],
            }
            for key in np.argsort(-row)[:TOP]:
                cost = np.eye(rows)[key]
                found.append((linprog(cost, **box).fun, -linprog(-cost, **box).fun))
        return np.array(found)

    def ours():
        sets = feasible_sets(layer.weights[head], layer.values[head], tolerance=1e-4, projection=layer.projection[head])
        return [
            [(found.low, found.high) for found in map(feasible.interval, np.eye(rows)[np.argsort(-feasible.row)[:TOP]])]
            for _, _, feasible in sets
        ]

    # Ours are of the ball of outputs, which is inside the box that linear programs can express.
    (low, high), (box_low, box_high) = np.concatenate(ours()[:: rows // COLD_ROWS][:COLD_ROWS]).T, cold().T
    assert (low >= box_low - 1e-7).all()
    assert (high <= box_high + 1e-7).all()
    assert max((low - box_low).max(), (box_high - high).max()) < 0.01
    times = side_by_side({"ours": ours, "cold": cold}, 3)
    share = times["ours"] / (times["cold"] * rows / COLD_ROWS)
    moves, ones = np.vstack([left.T, np.ones(rows)]), np.ones(width + 1)
    start = time.perf_counter()
    for _ in range(1000):
        dual_bound(np.eye(rows)[0], moves, -ones, ones, np.ones(rows), ones)
    proof = (time.perf_counter() - start) / 1000
    detail = f"({times['ours']:.1f} s, {rows} rows, certain and reached; proving one bound takes {proof * 1e6:.0f} µs)"
    report("top five weights of every row of a head, over cold calls", share, 1 / 3, True, detail)
