"""What the outputs of heads lose when a key is removed: its value zeroed, replaced by the mean, or its edge knocked out.

Each removal of key j for query i replaces the key's value by something else, u_i: o_i' = o_i - f_ij·(v_j - u_i).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from identiformer.equations.attention.heads import per_head

Maps = Float[Tensor, "head query key"]
Values = Float[Tensor, "group key width"]

FAINT = 1e-9
"""A row whose other weights sum to less than this share of it cannot be renormalized without its largest one."""


class Removal(NamedTuple):
    """How the output of each head changes if one key is removed for one query: o_i' = o_i - f_ij·(v_j - u_i)."""

    factor: Float64[Tensor, "head query key"]
    """f; NaN where the removal is undefined."""
    replacement: Float64[Tensor, "head #query width"]
    """u."""
    values: Float64[Tensor, "head key width"]
    """v."""
    outputs: Float64[Tensor, "head query width"]
    """o, with all keys."""

    def of_head(self, head: int) -> "Removal":
        """The removal in one head, with the others as they are."""
        others = torch.arange(len(self.factor), device=self.factor.device) != head
        return self._replace(factor=self.factor.masked_fill(others[:, None, None], 0))

    def changes(self, keys: Int64[Tensor, " removed"]) -> Float64[Tensor, "removed head query width"]:
        """o_i' - o_i for the removal of each of some keys; zero where it is undefined."""
        factor = self.factor[:, :, keys].nan_to_num(0).permute(2, 0, 1)[..., None]
        return factor * (self.replacement - self.values[:, keys].transpose(0, 1)[:, :, None])

    def relative_changes(self, projection: Float[Tensor, "head width model"] | None = None) -> Float64[Tensor, "head query key"]:
        """‖(o_i' - o_i)H‖/‖o_iH‖ for all pairs, by Gram matrices; NaN where it is undefined."""
        if projection is None:
            gram = torch.eye(self.values.shape[-1], dtype=torch.float64, device=self.values.device)
        else:
            gram = projection.double() @ projection.double().mT
        written, replaced = self.values @ gram, self.replacement @ gram
        squared = torch.linalg.vecdot(written, self.values)[:, None] - 2 * self.replacement @ written.mT
        squared = squared + torch.linalg.vecdot(replaced, self.replacement)[..., None]
        length = torch.linalg.vecdot(self.outputs @ gram, self.outputs).clamp(min=0).sqrt()[..., None]
        return self.factor.abs() * squared.clamp(min=0).sqrt() / torch.where(length > 0, length, torch.nan)


def zero_values(weights: Maps, values: Values, sink: bool = False) -> Removal:
    """Set v_j to zero: o_i' = o_i - a_ij·v_j. Knocking out an edge, a_ij → 0, without renormalizing does the same to row i.

    >>> zero_values(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[2.0], [4.0]]])).changes(torch.tensor([0])).flatten()
    tensor([-1.], dtype=torch.float64)
    """
    return _removal(weights, values, torch.zeros_like(values[:1, :1]).double())


def average_values(weights: Maps, values: Values, sink: bool = False) -> Removal:
    """Replace v_j by the mean v̄ over the tokens of the text: o_i' = o_i - a_ij·(v_j - v̄).

    >>> average_values(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[2.0], [4.0]]])).changes(torch.tensor([0])).flatten()
    tensor([0.5000], dtype=torch.float64)
    """
    return _removal(weights, values, per_head(values.double(), len(weights)).mean(1, keepdim=True))


def knock_out_edges(weights: Maps, values: Values, sink: bool = False) -> Removal:
    """Set a_ij to zero and renormalize the row: o_i' = (o_i - a_ij·v_j)·s_i/(s_i - a_ij), with s_i the sum of the row.

    This is what the softmax returns if the score of the pair is -∞. A learned sink takes part in it, so s_i = 1 there.
    Undefined where a_ij is all of the row.

    >>> knock_out_edges(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[2.0], [4.0]]])).changes(torch.tensor([0])).flatten()
    tensor([1.], dtype=torch.float64)
    """
    exact = weights.double()
    total = torch.ones_like(exact[..., :1]) if sink else exact.sum(-1, keepdim=True)
    rest = total - exact
    factor = torch.where(rest > FAINT * total, exact * total / rest, torch.nan)
    outputs = exact @ per_head(values.double(), len(weights))
    return _removal(weights, values, outputs / total)._replace(factor=factor)


def _removal(weights: Maps, values: Values, replacement: Float64[Tensor, "#head #query width"]) -> Removal:
    exact, repeated = weights.double(), per_head(values.double(), len(weights))
    return Removal(exact, replacement.expand(len(exact), -1, -1), repeated, exact @ repeated)
