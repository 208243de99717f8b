"""How well labels of two classes, 0 and 1, were told."""

import math

import numpy as np
from jaxtyping import Int64


def accuracy(told: Int64[np.ndarray, " example"], true: Int64[np.ndarray, " example"]) -> float:
    """The share of examples whose label was told.

    >>> accuracy(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    0.75
    """
    return float(np.mean(told == true))


def f1(told: Int64[np.ndarray, " example"], true: Int64[np.ndarray, " example"]) -> float:
    """The harmonic mean of precision and recall of label 1: 2 TP / (2 TP + FP + FN); 0 where there is none, told or true.

    >>> f1(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    0.6666666666666666
    """
    both, either = int(np.sum(told & true)), int(np.sum(told) + np.sum(true))
    return 2 * both / either if either else 0.0


def matthews_correlation(told: Int64[np.ndarray, " example"], true: Int64[np.ndarray, " example"]) -> float:
    """The correlation of told and true labels, (TP TN - FP FN) / √((TP+FP)(TP+FN)(TN+FP)(TN+FN)); 0 where all are alike.

    >>> matthews_correlation(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]))
    0.0
    """
    count, both, ones_told, ones_true = len(true), int(np.sum(told & true)), int(np.sum(told)), int(np.sum(true))
    spread = ones_told * (count - ones_told) * ones_true * (count - ones_true)
    # TP TN - FP FN is the same as n TP - (TP + FP)(TP + FN).
    return (count * both - ones_told * ones_true) / math.sqrt(spread) if spread else 0.0
