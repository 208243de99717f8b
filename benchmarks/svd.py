"""Effective attention against the singular value decompositions that the definition suggests."""

import numpy as np
import torch

from benchmarks.harness import report, side_by_side
from identiformer.equations import effective_attention

HEADS, WIDTH, MODEL = 12, 64, 768
EPS = float(np.finfo(np.float32).eps)


def run() -> None:
    for keys, numpy_bound in ((128, 400), (512, 200)):
        generator = torch.Generator().manual_seed(keys)
        values = torch.randn(HEADS, keys, WIDTH, generator=generator)
        t = values @ (torch.randn(HEADS, WIDTH, MODEL, generator=generator) / MODEL**0.5)
        weights = (2 * torch.randn(HEADS, keys, keys, generator=generator)).softmax(-1)

        def by_numpy(weights=weights, t=t):
            answers = []
            for a, own in zip(weights.numpy(), t.numpy(), strict=True):
                left, sigma, _ = np.linalg.svd(own)
                null = left[:, int((sigma > sigma[0] * max(own.shape) * EPS).sum()) :]
                answers.append(a - (a @ null) @ null.T)
            return torch.from_numpy(np.stack(answers))

        def by_thin_svd(weights=weights, t=t):
            left, sigma, _ = torch.linalg.svd(t, full_matrices=False)
            basis = left * (sigma > sigma[:, :1] * max(t.shape[1:]) * EPS)[:, None]
            return (weights @ basis) @ basis.mT

        def ours(weights=weights, values=values):
            return effective_attention(weights, values)

        for other in (by_numpy, by_thin_svd):
            torch.testing.assert_close(ours(), other(), atol=1e-5, rtol=0)
        times = side_by_side({"ours": ours, "numpy": by_numpy, "thin": by_thin_svd}, 5, {"ours": 40})
        detail = f"({times['ours'] * 1e3:.2f} ms here)"
        report(f"NumPy full SVD of T, {keys} keys: times faster", times["numpy"] / times["ours"], numpy_bound, False, detail)
        report(f"batched thin SVD of T, {keys} keys: times faster", times["thin"] / times["ours"], 60, False)
