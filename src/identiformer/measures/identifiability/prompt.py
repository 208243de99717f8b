"""Recover a prompt from the hidden states of a causal language model, exactly and one token after the other.

The state of a position depends on its token and those before it. Once these are known, each candidate for the token can be run
and compared (SipIt, arXiv 2510.15511). §4's probes ask what can be read from a state by a map that is the same everywhere.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from identiformer.equations.identifiability.candidates import candidate_scores
from identiformer.errors import InputError
from identiformer.models import Model
from identiformer.models.derivatives.input_site import embedding_of
from identiformer.models.encoding.text import readable_tokens
from identiformer.models.hidden_states.continuation import Continuation
from identiformer.progress import work_bar

FIRST_BATCH, LARGEST_BATCH = 16, 256
"""Candidates that are run at once: few at first, because the first guesses are usually right."""
NOISE = 256
"""Units of rounding, relative to the length of a state, that two computations of it may differ by, per square root of a layer.

Most differ by fewer than 10, but states with very large entries, which smollm2 has at the first positions, by up to 90."""
MOST_FITTED = 1024
"""States that the prediction of others is fitted to; later ones replace the earliest."""


@dataclass(frozen=True, eq=False)
class RecoveredPrompt:
    """A prompt recovered from hidden states; arrays have one entry per position.

    Attributes
    ----------
    text : str
        The tokens up to the first undecided position, as text.
    tokens : tuple of str
    ids : int64 array
        -1 from the first undecided position on.
    decided : bool array
        Whether exactly one of the tried tokens has the given state within rounding.
    tried : int64 array
        Candidates that were run.
    distance, runner_up : float64 arrays
        Of the nearest and the second nearest candidate, ‖h - ĥ‖.
    noise : float64 array
        The distance below which rounding may explain a difference.
    """

    text: str
    tokens: tuple[str, ...]
    ids: Int64[np.ndarray, " position"]
    decided: Bool[np.ndarray, " position"]
    tried: Int64[np.ndarray, " position"]
    distance: Float64[np.ndarray, " position"]
    runner_up: Float64[np.ndarray, " position"]
    noise: Float64[np.ndarray, " position"]

    @property
    def margin(self) -> Float64[np.ndarray, " position"]:
        """The distance of the second nearest candidate over that of the nearest, or over the noise if that is larger."""
        return self.runner_up / np.maximum(self.distance, self.noise)


def recover_prompt(model: Model, hidden_states: Tensor | np.ndarray, layer: int, *, progress: bool = False) -> RecoveredPrompt:
    """Recover the exact prompt of a causal language model from its hidden states at one layer.

    From left to right, each candidate for a token is run after the tokens recovered so far, and its state is compared with the
    given one. Candidates are tried in order of next-token probability (for the first token, that after a special token), times
    how well their states are predicted to match (`equations.candidate_scores`), until one matches within rounding.

    Parameters
    ----------
    model : Model
        A causal language model with its head.
    hidden_states : array or tensor (position width)
        ``hidden_states[layer][0]`` of the network, without padding, from the first token on.
    layer : int
        The layer that they are from: 0 for the embeddings, 1 for the output of the first block, and so on.
    progress : bool
        Show a progress bar.

    Returns
    -------
    RecoveredPrompt
        `text`, `tokens`, `ids`, and for each position `decided`, `margin`, `distance`, `runner_up`, `noise` and `tried`. Two
        tokens with the same state within rounding are not guessed: that position and those after it are undecided.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("smollm2")  # doctest: +SKIP
    >>> inputs = model.tokenizer("The pie was his.", return_tensors="pt")  # doctest: +SKIP
    >>> states = model.network(**inputs, output_hidden_states=True).hidden_states[15][0]  # doctest: +SKIP
    >>> idf.recover_prompt(model, states, layer=15).text  # doctest: +SKIP
    'The pie was his.'
    """
    targets = torch.as_tensor(hidden_states).detach().cpu()
    _check_states(model, targets, layer)
    continuation = Continuation(model, layer)
    embeddings: Any = embedding_of(model.backbone)
    features = torch.nn.functional.normalize(embeddings.weight.detach().float().cpu(), dim=-1)
    precisions = (torch.finfo(targets.dtype).eps, torch.finfo(model.network.dtype).eps)
    noises = NOISE * max(precisions) * (layer + 1) ** 0.5 * targets.double().norm(dim=-1)
    prior = _first_token_scores(model, continuation, len(features))
    ids: list[int] = []
    tried, (distance, runner_up) = np.zeros(len(targets), np.int64), np.full((2, len(targets)), np.nan)
    with work_bar("recovering tokens", progress) as bar:
        bar.expect(len(targets))
        for position, (target, noise) in enumerate(zip(targets, noises.tolist(), strict=True)):
            token, nearest, second, tried[position] = _search(continuation, prior, features, target, noise)
            distance[position], runner_up[position] = nearest, second
            if nearest > noise:
                raise InputError(
                    f"expected states of {model.name} at layer {layer}, but no token yields that of position {position}: "
                    f"the nearest is {nearest:.2g} away, and rounding explains only {noise:.2g}; check the model, the "
                    "layer, and that the states start at the first token."
                )
            if not noise < second:
                break
            ids.append(token)
            prior = continuation.append(token)
            bar.advance(1)
    decided = np.arange(len(targets)) < len(ids)
    padded = np.array([*ids, *[-1] * (len(targets) - len(ids))], np.int64)
    text, tokens = model.tokenizer.decode(ids), tuple(readable_tokens(model.tokenizer, ids))
    return RecoveredPrompt(text, tokens, padded, decided, tried, distance, runner_up, noises.numpy())


def _first_token_scores(model: Model, continuation: Continuation, vocabulary: int) -> Tensor:
    """How likely each token is to begin a text: what the model expects after special tokens, which separate texts."""
    special = [token for token in model.tokenizer.all_special_ids if token < vocabulary]
    if special:
        return continuation.expected_after(torch.tensor(special)).logsumexp(0)
    # Vocabularies are ordered by how early a token was merged, and so roughly by frequency.
    return -torch.arange(1, vocabulary + 1).log()


def _search(
    continuation: Continuation, prior: Tensor, features: Tensor, target: Tensor, noise: float
) -> tuple[int, float, float, int]:
    """Run candidates until one has the target's state within the noise, or all have been run.

    Returns the nearest, its distance, that of the second nearest, and how many were run.
    """
    tried, states = torch.empty(0, dtype=torch.int64), torch.empty(0, len(target))
    distances, size = torch.empty(0, dtype=torch.float64), FIRST_BATCH
    while len(tried) < len(features) and not bool((distances <= noise).any()):
        scores = candidate_scores(prior, features, tried[-MOST_FITTED:], states[-MOST_FITTED:], target)
        scores[tried] = -torch.inf
        chosen = scores.topk(min(size, len(features) - len(tried))).indices
        new = continuation.states(chosen)
        distances = torch.cat([distances, (new.double() - target.double()).norm(dim=-1)])
        tried, states = torch.cat([tried, chosen]), torch.cat([states, new.float()])
        size = min(2 * size, LARGEST_BATCH)
    nearest, second = distances.topk(min(2, len(distances)), largest=False)
    return int(tried[second[0]]), float(nearest[0]), float(nearest[-1]), len(tried)


def _check_states(model: Model, states: Tensor, layer: int) -> None:
    config = model.backbone.config
    width, layers = int(config.hidden_size), int(config.num_hidden_layers)
    if not isinstance(layer, int) or not 0 <= layer <= layers:
        raise InputError(f"expected a layer from 0, the embeddings, to {layers}, got {layer!r}.")
    if states.ndim != 2 or states.shape[1] != width or not states.is_floating_point():
        got = f"{str(states.dtype).removeprefix('torch.')} {tuple(states.shape)}"
        raise InputError(
            f"expected hidden states of {model.name} as floats (position {width}), got {got}; pass those of one text and "
            f"one layer, such as hidden_states[{layer}][0]."
        )
    if not len(states):
        raise InputError("expected the states of at least one token, got none.")
    if model.positions is not None and len(states) > model.positions:
        raise InputError(f"expected at most {model.positions} positions, which {model.name} takes, got {len(states)}.")
    if not bool(torch.isfinite(states).all()):
        raise InputError("expected finite hidden states, got NaN or infinity; check where they come from.")
