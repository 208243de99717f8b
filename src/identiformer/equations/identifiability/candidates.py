"""In which order to try the tokens that a hidden vector may come from, as their states become known one batch after another."""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

RIDGE = 1e-2
"""Relative to the mean squared length of the features."""


def candidate_scores(
    log_prior: Float[Tensor, " token"],
    features: Float[Tensor, "token width"],
    tried: Int64[Tensor, " tried"],
    states: Float[Tensor, "tried state_width"],
    target: Float[Tensor, " state_width"],
) -> Float64[Tensor, " token"]:
    """The logarithm of how probable each token is as the source of a hidden vector, up to a constant; -∞ for those tried.

    Prior × likelihood: the state of an untried token is predicted by ridge regression from the features of the tried ones,
    h ≈ f·W, and its residual is taken as normal, with the variance of each coordinate that the tried tokens have when each is
    left out. Coordinates are dependent, so that a residual counts as ρ numbers, with ρ = (tr S)²/tr S² of the residuals' S.

    Parameters
    ----------
    log_prior : float tensor (token)
        Such as the next-token distribution of a language model.
    features : float tensor (token width)
        What tokens are compared by, such as embeddings of unit length.
    tried : int64 tensor (tried)
        The tokens whose states are known.
    states : float tensor (tried state_width)
        Their states.
    target : float tensor (state_width)
        The state whose token is unknown.

    Examples
    --------
    >>> features = torch.eye(3).repeat(2, 1)  # token 5 is like token 2
    >>> scores = candidate_scores(torch.zeros(6), features, torch.tensor([0, 1, 2]), torch.eye(3), torch.tensor([0.0, 0.1, 0.9]))
    >>> int(scores.argmax())
    5
    """
    scores = log_prior.double().clone()
    if len(tried) > 1:
        known = features[tried].double()
        known_mean, state_mean = known.mean(0), states.double().mean(0)
        known, moved = known - known_mean, states.double() - state_mean
        gram = known @ known.T
        inverse = torch.linalg.inv(gram + RIDGE * gram.diagonal().mean().clamp(min=1e-12) * torch.eye(len(gram)).to(gram))
        weights = inverse @ moved  # (tried state_width)
        # What each tried state differs by from its prediction by the others, in closed form; the mean is an unpenalized term.
        hat = (gram * inverse.T).sum(-1) + 1 / len(tried)
        residuals = (moved - gram @ weights) / (1 - hat).clamp(min=1e-6)[:, None]
        # A few coordinates of most models are huge; in units of their own spread they hide no others.
        unit = residuals.square().mean(0).sqrt().clamp(min=1e-12)
        residuals, weights, wanted = residuals / unit, weights / unit, (target.double() - state_mean) / unit
        spread = residuals @ residuals.T / len(tried)
        variance = spread.diagonal().sum()
        dimensions = variance.square() / spread.square().sum().clamp(min=1e-300)
        # An order needs no more than the features' own precision. The products with all of them are most of the work, so they
        # use the smaller of the two sizes: in the dual that of the tried tokens, in the primal that of the features.
        if len(tried) < features.shape[1]:
            kernel = features @ known.T.to(features) - (known_mean @ known.T).to(features)
        else:
            kernel, weights = features - known_mean.to(features), known.T @ weights
        squares = (kernel @ (weights @ weights.T).to(kernel) * kernel).sum(-1)
        distance = wanted.square().sum() + (squares - 2 * kernel @ (weights @ wanted).to(kernel)).double()
        scores -= dimensions * distance / (2 * variance.clamp(min=1e-300))
    scores[tried] = -torch.inf
    return scores
