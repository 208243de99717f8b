"""Where each hidden vector came from: the share of every input token, at every layer, with its error."""

import warnings

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.attribution.agreement import row_correlation
from identiformer.equations.attribution.distances import NEIGHBOURS, contribution_by_distance, contribution_by_neighbors
from identiformer.equations.attribution.hidden_token import (
    NormEstimate,
    contribution,
    contribution_error,
    contribution_interval,
    distribution_error,
    estimate_norms,
    main_contributor_certain,
    undecided_sources,
)
from identiformer.errors import InputError
from identiformer.measures.attention.effective import effective_attention
from identiformer.measures.selection import Grouping, Numbers, Sets, chosen, group_tokens, read_sets
from identiformer.models import Model
from identiformer.models.derivatives.jacobian_norms import NORMS, ForwardNorms, Selection, exact_norms
from identiformer.options import check_seed
from identiformer.progress import WorkBar, work_bar
from identiformer.results import describe
from identiformer.trace import Trace

Arrays = dict[str, tuple[tuple[str, ...], Tensor]]

DIRECTIONS = 16
SMALLEST_TOLERANCE = 1e-6
"""The model's own arithmetic, in float32, errs by as much; no number of directions gets below it."""
MEMORY = 512 * 2**20
"""For what goes through the model, beside a copy of its weights into which constants are folded."""


def token_attribution(
    model: Model,
    text: str | Tensor,
    pair: str | None = None,
    *,
    directions: int = DIRECTIONS,
    exact: bool = False,
    tolerance: float | None = None,
    norm: str = "frobenius",
    input_site: str = "before",
    layers: Numbers | None = None,
    targets: Numbers | None = None,
    heads: bool = False,
    sets: Sets | None = None,
    group_by: Grouping | None = None,
    seed: int = 0,
    memory: int | None = None,
    truncate: bool = False,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Hidden Token Attribution of a text: how much of each input token is in each hidden vector. §5.1, Eq. 11.

    Over (layer target source): `contribution`, the norm of ∂e_target/∂x_source as a share of its sum over sources; its standard
    `error`; `low` and `high`, its interval with 95% confidence.
    Over (layer target): `self_contribution`; `main_contributor`, the source with the largest share, and
    `main_contributor_certain`, whether it stands out beyond the error; `distribution_error`, the total variation that is to be
    expected between the estimated shares and the true ones.
    Over (layer distance): `by_distance`, the contribution of others by source less target; NaN where there are no others, as in
    a text of one token. Over (layer group): `by_neighbors`,
    the mean contribution of the first, second, … neighbor on either side.
    Over (set layer target): `set_contribution` and `set_error`, for sets of sources: `sets` as in `ambiguity`, positions or the
    texts of tokens by name, and `group_by`: "segment", "word", "special", or a label (such as a tag) for each token.
    Layers count from 1, targets and sources from 0. An encoder-decoder is looked at in its encoder; a vision model takes an
    image in place of the text, as in `Model.trace`.

    directions: random orthonormal directions a source, the same for the same seed. tolerance: goes on until every distribution
        error is below it (1e-6 at least) and every main contributor is decided, with more directions where needed. exact=True
        takes whole Jacobians, forward, or in reverse where few targets or layers are selected.
    norm: "frobenius" as in the paper; "spectral"; or "summed", the gradient of the summed hidden vector, which some scripts
        take: behind a plain LayerNorm it is zero. The last two are exact.
    input_site: the vectors "before" the LayerNorm of the embeddings (the sum of token, position and segment embeddings)
        or "after" it.
    heads: also what each head gives, over (layer head target source): `head_contribution` and `head_error`; and over
        (layer head target) `raw_agreement` and `effective_agreement`, its correlation with the head's attention. NaN, with a
        warning, where a head's output does not depend on the input, as that of a pruned head.
    memory: bytes that the computation may take beside the model and the result; 512 MiB and a copy of the weights without it.
    """
    check_seed(seed, 2**64 - 1)  # a run over a corpus gives each text a seed of its own
    function, tokens, source = model.input_function(text, pair, input_site=input_site, truncate=truncate)
    selection = Selection(
        tuple(chosen(layers, len(function.widths), "layer", first=1)), tuple(chosen(targets, len(tokens), "target"))
    )
    members = {**read_sets(sets, tokens), **group_tokens(group_by, tokens)}
    exact = exact or norm != "frobenius"
    _check(norm, directions, exact, tolerance, heads, function.x.shape[1])
    if memory is None:
        memory = MEMORY + sum(parameter.nbytes for parameter in model.network.parameters())
    own = torch.arange(len(tokens)) == torch.tensor(selection.targets)[:, None]
    arrays: Arrays = {}
    with work_bar("attributing", progress) as bar:
        if exact and not heads:
            norms = exact_norms(function, selection, norm, memory, bar)
            variance = torch.zeros_like(norms)
        else:
            forward = ForwardNorms(function, selection, seed, memory, heads, bar)
            norms, variance = _sample_until(forward, own, function.x.shape[1] if exact else directions, tolerance)
            arrays["directions"] = (("source",), forward.counts)
            if heads:
                trace = model.trace(text, pair, truncate=truncate, form="weights")
                arrays |= _of_heads(forward, own, trace, selection)
    arrays |= _of_sources(norms, variance, own, selection, members)
    coordinates = {
        "layer": list(selection.layers),
        "target": list(selection.targets),
        "source": np.arange(len(tokens)),
        "target_token": ("target", [tokens.texts[target] for target in selection.targets]),
        "source_token": ("source", list(tokens.texts)),
        "source_special": ("source", list(tokens.special)),
        "source_segment": ("source", list(tokens.segments)),
        "distance": np.arange(1 - len(tokens), len(tokens)),
        "group": list(NEIGHBOURS),
        **({"set": list(members)} if members else {}),
    }
    settings = {
        "directions": directions, "exact": exact, "tolerance": tolerance, "norm": norm, "input_site": input_site, "heads": heads,
        "seed": seed,
    }  # fmt: skip
    dataset = xr.Dataset({name: (dims, array.numpy()) for name, (dims, array) in arrays.items()}, coordinates)
    return describe(dataset, "token_attribution", source, settings)


def _check(norm: str, directions: int, exact: bool, tolerance: float | None, heads: bool, width: int) -> None:
    if norm not in NORMS:
        raise InputError(f"expected a norm of {', '.join(NORMS)}, got {norm!r}.")
    if heads and norm != "frobenius":
        raise InputError(f"what a head gives is measured by the Frobenius norm, got norm={norm!r}; leave heads or norm out.")
    if not exact and not 2 <= directions <= width:
        raise InputError(
            f"expected from 2 to {width} directions, the width of the input, got {directions}; for all of it use exact=True."
        )
    if tolerance is not None and (exact or not 0 < tolerance < 1):
        raise InputError(
            f"expected a tolerance between 0 and 1, and not beside an exact computation, got {tolerance}"
            f"{' beside an exact one' if exact else ''}."
        )
    if tolerance is not None and tolerance < SMALLEST_TOLERANCE:
        raise InputError(
            f"expected a tolerance of {SMALLEST_TOLERANCE:g} or more, which is what the model's own rounding allows, got "
            f"{tolerance:g}; use exact=True for whole Jacobians."
        )


def _sample_until(forward: ForwardNorms, own: Tensor, directions: int, tolerance: float | None) -> NormEstimate:
    """Take directions of every source, and then more of those that still need them."""
    forward.extend(torch.full((forward.sources,), directions))
    estimate = _estimate(forward, forward.sums, own)
    while tolerance is not None:
        needy = undecided_sources(contribution(estimate.norm), estimate.variance, tolerance)
        if not bool(needy.any()):
            break
        forward.extend(torch.where(needy, (2 * forward.counts).clamp(max=forward.width), forward.counts))
        estimate = _estimate(forward, forward.sums, own)
    return estimate


def _estimate(forward: ForwardNorms, sums: Tensor, own: Tensor) -> NormEstimate:
    mean = sums[0] / forward.counts
    spread = (sums[1] - forward.counts * mean.square()).clamp(min=0) / (forward.counts - 1)
    return estimate_norms(mean, spread, forward.counts, own, forward.width)


def _of_sources(norms: Tensor, variance: Tensor, own: Tensor, selection: Selection, members: dict[str, list[int]]) -> Arrays:
    shares = contribution(norms)
    error = contribution_error(shares, variance)
    low, high = contribution_interval(shares, error)
    targets = torch.tensor(selection.targets)
    by_layer, by_target, by_source = ("layer",), ("layer", "target"), ("layer", "target", "source")
    arrays: Arrays = {
        "contribution": (by_source, shares),
        "error": (by_source, error),
        "low": (by_source, low),
        "high": (by_source, high),
        "self_contribution": (by_target, (shares * own).sum(-1)),
        "main_contributor": (by_target, shares.argmax(-1)),
        "main_contributor_certain": (by_target, main_contributor_certain(shares, variance)),
        "distribution_error": (by_target, distribution_error(error)),
        "by_distance": ((*by_layer, "distance"), contribution_by_distance(shares, targets)),
        "by_neighbors": ((*by_layer, "group"), contribution_by_neighbors(shares, targets).nanmean(-2)),
    }
    if members:
        inside = torch.zeros(len(members), len(own[0]), dtype=torch.bool)
        for row, positions in zip(inside, members.values(), strict=True):
            row[positions] = True
        arrays["set_contribution"] = (("set", *by_target), (shares @ inside.double().mT).movedim(-1, 0))
        arrays["set_error"] = (("set", *by_target), contribution_error(shares, variance, inside).movedim(-1, 0))
    return arrays


def _of_heads(forward: ForwardNorms, own: Tensor, trace: Trace, selection: Selection) -> Arrays:
    """What each head's output is made of, and how far its attention tells the same."""
    estimate = _estimate(forward, forward.head_sums, own)
    dead = (estimate.norm == 0).all(-1, keepdim=True)
    if bool(dead.any()):
        layer, head, target = dead[..., 0].nonzero()[0].tolist()
        warnings.warn(
            f"{int(dead.sum())} of {dead.numel()} outputs of heads do not depend on the input, the first at layer "
            f"{selection.layers[layer]}, head {head}, position {selection.targets[target]}; their contributions are undefined "
            "(NaN).",
            stacklevel=3,
        )
    shares = contribution(torch.where(dead, 1.0, estimate.norm)).masked_fill_(dead, torch.nan)
    maps = effective_attention(trace, layers=list(selection.layers), queries=list(selection.targets))
    visible = torch.stack([trace.layer(layer).visible.dense()[list(selection.targets)] for layer in selection.layers])[:, None]
    places = ("layer", "head", "target")
    return {
        "head_contribution": ((*places, "source"), shares),
        "head_error": ((*places, "source"), contribution_error(shares, estimate.variance)),
        **{
            f"{name}_agreement": (places, row_correlation(shares, torch.tensor(maps[name].values), visible))
            for name in ("raw", "effective")
        },
    }
