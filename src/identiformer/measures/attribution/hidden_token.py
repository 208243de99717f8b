"""Hidden Token Attribution: the contribution of every input token to every hidden vector, with its error."""

import warnings
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.attribution.agreement import row_correlation
from identiformer.equations.attribution.hidden_token import (
    NEIGHBORS,
    NormEstimate,
    contribution,
    contribution_by_distance,
    contribution_by_neighbors,
    distribution_error,
    estimate_norms,
)
from identiformer.equations.attribution.shared_directions import SharedNorms, shared_norms
from identiformer.errors import InputError
from identiformer.measures.effective import effective_attention
from identiformer.measures.indices import Grouping, Indices, TokenSets, group_tokens, select_indices, token_sets
from identiformer.models import Model
from identiformer.models.derivatives.jacobian_blocks import Selection
from identiformer.models.derivatives.jacobian_norms import ForwardNorms, ReverseNorms, exact_norms, reverse_sampling_is_cheaper
from identiformer.names import NORMS, check_name
from identiformer.options import DIRECTIONS, check_accuracy, check_seed
from identiformer.passage import Passage, Readable
from identiformer.progress import WorkBar, work_bar
from identiformer.results import make_result
from identiformer.trace import Trace

Arrays = dict[str, Tensor]
Estimate = NormEstimate | SharedNorms

MEMORY = 512 * 2**20
"""The least bytes for tangents, besides a copy of the weights into which constants are folded."""


def token_attribution(
    model: Model,
    text: Readable,
    pair: str | None = None,
    *,
    directions: int = DIRECTIONS,
    exact: bool = False,
    tolerance: float | None = None,
    norm: str = "frobenius",
    input_site: str = "before",
    layers: Indices | None = None,
    targets: Indices | None = None,
    heads: bool = False,
    sets: TokenSets | None = None,
    group_by: Grouping | None = None,
    seed: int = 0,
    memory: int | None = None,
    truncate: bool = False,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Hidden Token Attribution: how much each input token contributes to each hidden vector.

    The contribution of source j to target i at layer l is c_ij = ‖∂e_i^l/∂x_j‖ / Σ_k ‖∂e_i^l/∂x_k‖ (§5.1, Eq. 11), with x the
    input vectors and e^l the hidden vectors of layer l. Norms are estimated along random directions unless `exact`.

    Parameters
    ----------
    model : Model
        An encoder-decoder is attributed in its encoder.
    text : str, Answer, Tensor or Passage
        A text, an answer of the model, or an image for a vision model, as in `Model.trace`.
    pair : str, optional
        The second text of a pair.
    directions : int
        Random orthonormal directions, the same for the same seed: per source, or per target and layer where few are selected.
    exact : bool
        Compute whole Jacobians, in reverse mode where few targets or layers are selected.
    tolerance : float, optional
        Add directions until every `distribution_error` is below this (at least 1e-6) and every main contributor is certain.
    norm : {"frobenius", "spectral", "summed"}
        "frobenius" as in the paper. "summed" is the gradient of the summed hidden vector, which some scripts use; after a
        plain LayerNorm it is zero. The last two are always exact.
    input_site : {"before", "after"}
        x before the LayerNorm of the embeddings (the sum of token, position and segment embeddings), or after it.
    layers, targets : sequence of int, optional
        Layers (from 1) and positions (from 0) to attribute; all by default.
    heads : bool
        Attribute the output of each head too.
    sets : str, list of str or dict, optional
        Sets of sources by position or token text, as in `ambiguity`.
    group_by : str or list of str, optional
        "segment", "word", "special" or, for an answer, "span"; or one label per token: more sets of sources.
    seed : int
        Seed of the directions.
    memory : int, optional
        Bytes to use in addition to the model and the result; by default what the model was loaded with, at least 512 MiB, and
        the size of the weights.
    truncate : bool
        Truncate a text that is longer than the model accepts.
    progress : bool
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        Over (layer, target, source): `contribution`, which sums to 1 over sources; `error`, its standard error; `low` and
        `high`, its 95% confidence interval. Over (layer, target): `self_contribution`; `main_contributor`, the source with the
        largest contribution, and `main_contributor_certain`, whether it is the largest beyond the error;
        `distribution_error`, the expected total variation between estimated and true shares. `by_distance` (layer, distance):
        the mean contribution by source minus target position, NaN where a text has no such pair. `by_neighbors` (layer, group):
        the mean contribution of the first, second, … neighbors on either side. `directions` (source): how many were used,
        unless exact. With sets: `set_contribution` and `set_error` (set, layer, target). With heads: `head_contribution` and
        `head_error` (layer, head, target, source), NaN with a warning where a head's output does not depend on the input;
        `raw_agreement` and `effective_agreement` (layer, head, target), their correlation with the head's attention.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> result = idf.token_attribution(model, "He said that.", layers=[1, 6])
    >>> dict(result.contribution.sizes)
    {'layer': 2, 'target': 6, 'source': 6}
    """
    check_seed(seed, 2**64 - 1)  # a run over a corpus derives one seed per text
    passage = Passage.of(model, text, pair, truncate=truncate)
    function, tokens = passage.input_function(input_site), passage.tokens
    selection = Selection(
        tuple(select_indices(layers, len(function.widths), "layer", first=1)),
        tuple(select_indices(targets, len(tokens), "target")),
    )
    members = {**token_sets(sets, tokens), **group_tokens(group_by, tokens)}
    exact = exact or norm != "frobenius"
    check_name("a norm", norm, NORMS)
    if heads and norm != "frobenius":
        raise InputError(f"expected the Frobenius norm with heads, got norm={norm!r}; leave heads or norm out.")
    check_accuracy(directions, exact, tolerance, function.x.shape[1])
    if memory is None:
        memory = max(MEMORY, model.memory) + weights_of(model)
    is_self = torch.arange(len(tokens)) == torch.tensor(selection.targets)[:, None]
    arrays: Arrays = {}
    with work_bar("attributing", progress) as bar:
        if exact and not heads:
            norms = exact_norms(function, selection, norm, memory, bar)
            estimate = NormEstimate(norms, torch.zeros_like(norms), torch.full((len(tokens),), torch.inf, dtype=torch.float64))
        else:
            if heads or not reverse_sampling_is_cheaper(function, selection):
                sampled = ForwardNorms(function, selection, seed, memory, heads, bar)
            else:
                sampled = ReverseNorms(function, selection, seed, memory, bar)
            estimate = _sample_until(sampled, is_self, function.x.shape[1] if exact else directions, tolerance)
            arrays["directions"] = sampled.counts
            if isinstance(sampled, ForwardNorms) and heads:
                arrays |= _of_heads(sampled, is_self, passage.recorded, selection)
    arrays |= _of_sources(estimate, is_self, selection, members)
    coordinates = {
        "layer": list(selection.layers),
        "target": list(selection.targets),
        "source": np.arange(len(tokens)),
        "target_token": ("target", [tokens.texts[target] for target in selection.targets]),
        "source_token": ("source", list(tokens.texts)),
        "source_special": ("source", list(tokens.special)),
        "source_segment": ("source", list(tokens.segments)),
        "distance": np.arange(1 - len(tokens), len(tokens)),
        "group": list(NEIGHBORS),
        **({"set": list(members)} if members else {}),
    }
    settings = {
        "directions": directions, "exact": exact, "tolerance": tolerance, "norm": norm, "input_site": input_site, "heads": heads,
        "seed": seed,
    }  # fmt: skip
    return make_result("token_attribution", arrays, coordinates, passage.source, settings)


def weights_of(model: Model) -> int:
    """Bytes of the weights in memory: constants are folded into a copy of them."""
    return sum(parameter.nbytes for parameter in model.network.parameters() if not parameter.is_meta)


def attribution_of(passage: Passage) -> xr.Dataset:
    """The `token_attribution` of a passage with its own seed and number of directions, computed once for all measures."""
    options: Any = {"directions": passage.directions, "seed": passage.seed}
    return passage.once("token_attribution", lambda: token_attribution(passage.model, passage, **options))


def _sample_until(sampled: ForwardNorms | ReverseNorms, is_self: Tensor, directions: int, tolerance: float | None) -> Estimate:
    """Use this many directions for every source, and then more for those that the tolerance requires."""
    sampled.extend(torch.full((sampled.sources,), directions))
    estimate = _estimate(sampled, is_self)
    while tolerance is not None:
        undecided = estimate.undecided(contribution(estimate.norm), tolerance)
        if not bool(undecided.any()):
            break
        sampled.extend(torch.where(undecided, (2 * sampled.counts).clamp(max=sampled.width), sampled.counts))
        estimate = _estimate(sampled, is_self)
    return estimate


def _estimate(sampled: ForwardNorms | ReverseNorms, is_self: Tensor) -> Estimate:
    if isinstance(sampled, ReverseNorms):
        return shared_norms(sampled.mean, sampled.products, sampled.width)
    return _independent(sampled, sampled.sums, is_self)


def _independent(sampled: ForwardNorms, sums: Tensor, is_self: Tensor) -> NormEstimate:
    mean = sums[0] / sampled.counts
    spread = (sums[1] - sampled.counts * mean.square()).clamp(min=0) / (sampled.counts - 1)
    return estimate_norms(mean, spread, sampled.counts, is_self, sampled.width)


def _of_sources(estimate: Estimate, is_self: Tensor, selection: Selection, members: dict[str, list[int]]) -> Arrays:
    shares = contribution(estimate.norm)
    error = estimate.error(shares)
    low, high = estimate.interval(shares)
    targets = torch.tensor(selection.targets)
    arrays: Arrays = {
        "contribution": shares,
        "error": error,
        "low": low,
        "high": high,
        "self_contribution": (shares * is_self).sum(-1),
        "main_contributor": shares.argmax(-1),
        "main_contributor_certain": estimate.main_contributor_certain(shares),
        "distribution_error": distribution_error(error),
        "by_distance": contribution_by_distance(shares, targets),
        "by_neighbors": contribution_by_neighbors(shares, targets).nanmean(-2),
    }
    if members:
        inside = torch.zeros(len(members), len(is_self[0]), dtype=torch.bool)
        for row, positions in zip(inside, members.values(), strict=True):
            row[positions] = True
        arrays["set_contribution"] = (shares @ inside.double().mT).movedim(-1, 0)
        arrays["set_error"] = estimate.error(shares, inside).movedim(-1, 0)
    return arrays


def _of_heads(forward: ForwardNorms, is_self: Tensor, trace: Trace, selection: Selection) -> Arrays:
    """Return the contributions to each head's output, and their correlation with its attention."""
    estimate = _independent(forward, forward.head_sums, is_self)
    independent = (estimate.norm == 0).all(-1, keepdim=True)
    if bool(independent.any()):
        layer, head, target = independent[..., 0].nonzero()[0].tolist()
        warnings.warn(
            f"{int(independent.sum())} of {independent.numel()} head outputs do not depend on the input, the first at layer "
            f"{selection.layers[layer]}, head {head}, position {selection.targets[target]}; their contributions are undefined "
            "(NaN).",
            stacklevel=3,
        )
    shares = contribution(torch.where(independent, 1.0, estimate.norm)).masked_fill_(independent, torch.nan)
    maps = effective_attention(trace, layers=list(selection.layers), queries=list(selection.targets))
    visible = torch.stack([trace.layer(layer).visible.dense()[list(selection.targets)] for layer in selection.layers])[:, None]
    names = ("raw", "effective")
    agreements = {f"{name}_agreement": row_correlation(shares, torch.tensor(maps[name].values), visible) for name in names}
    return {"head_contribution": shares, "head_error": estimate.error(shares), **agreements}
