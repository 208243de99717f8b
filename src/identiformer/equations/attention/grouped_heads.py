"""Grouped-query attention: consecutive query heads share one group of keys and values."""

from typing import TypeVar

from torch import Tensor

Head = TypeVar("Head", int, Tensor)


def group_of(head: Head, heads: int, groups: int) -> Head:
    """The group of keys and values that a query head, or each of several, reads."""
    return head // (heads // groups)


def per_head(grouped: Tensor, heads: int, dim: int = 0) -> Tensor:
    """One entry per query head, from one entry per group along a dimension."""
    return grouped.repeat_interleave(heads // grouped.shape[dim], dim)
