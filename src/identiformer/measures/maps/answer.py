"""Which tokens each generated token drew on: any explanation of the output, for every token of an answer."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.measures.attribution.hidden_token import DIRECTIONS, MEMORY, token_attribution
from identiformer.measures.indices import Grouping, Indices, TokenSets, group_tokens, select_indices, token_sets
from identiformer.measures.maps import find_map
from identiformer.models import Answer, Model
from identiformer.models.derivatives.input_function import InputFunction, differentiable
from identiformer.models.derivatives.jacobian_blocks import Pullback
from identiformer.models.target import Output, Target, answer_targets
from identiformer.names import EXPLANATIONS
from identiformer.passage import Passage, Readable
from identiformer.progress import WorkBar, work_bar
from identiformer.results import make_result

GRAPH = 3
"""How many times the attention weights a graph through which gradients pass may hold."""
OF_PROBABILITIES = ("gradient_times_input", "integrated_gradients")
"""Explanations that do not need a number which is linear in the logits."""


def answer_attribution(
    model: Model,
    answer: Readable,
    *,
    method: str | None = None,
    output: str = "logit",
    steps: Indices | None = None,
    directions: int = DIRECTIONS,
    exact: bool = False,
    sets: TokenSets | None = None,
    group_by: Grouping | None = None,
    seed: int = 0,
    memory: int | None = None,
    progress: bool | WorkBar = False,
) -> xr.Dataset:
    """Attribute the logit, probability or hidden vector of each generated token to the tokens before it.

    A model predicts the token at position p at position p - 1: the Dataset has `token_position` p and `predicted_at` p - 1 of
    every step. Sources are the tokens up to `predicted_at`; those after it have attribution 0.

    Parameters
    ----------
    model : Model
        The model that wrote the answer.
    answer : Answer or Passage
        From `Model.generate`.
    method : str, optional
        An explanation of the output that `docs/maps.md` lists. By default "attnlrp", which ranks best the words whose removal
        changes the output (`docs/comparison_results.md`), or "gradient_attention", the next best, if AttnLRP does not know the
        layout of the model's blocks. Probabilities, and texts whose attention weights would take too much memory, have
        "gradient_times_input", one backward pass per token. "token_attribution_last" is Hidden Token Attribution of the vector
        in the last layer at `predicted_at`, from which the token's logit is read.
    output : {"logit", "probability"}
        f: the token's logit relative to the mean of all logits, or its probability. Probabilities have gradient × input and
        integrated gradients only.
    steps : int or sequence of int, optional
        Which tokens of the answer, counted from 0; all by default.
    directions, exact, seed
        Of Hidden Token Attribution, as in `token_attribution`.
    sets, group_by
        Sets of sources, as in `token_attribution`; `group_by="span"` sums over prompt and answer, or over the roles of a chat.
    memory : int, optional
        Bytes for gradients and tangents, as in `token_attribution`.
    progress : bool
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        Over (step, source): `attribution`, signed where the method is; `share`, its absolute value as a share of the step's
        sum; for Hidden Token Attribution also `error`, `low` and `high` of the share, its standard error and 95% interval.
        Over (step): `value`, the number f that is explained, except with Hidden Token Attribution; `probability` of the
        token. With sets: `set_share` (set, step).

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("smollm2")  # doctest: +SKIP
    >>> answer = model.generate("The capital of France is", max_new_tokens=2)  # doctest: +SKIP
    >>> result = idf.answer_attribution(model, answer)  # doctest: +SKIP
    >>> dict(result.share.sizes)  # doctest: +SKIP
    {'step': 2, 'source': 7}
    """
    if not isinstance(answer, Answer | Passage):
        raise InputError(f"expected an answer from model.generate, got {type(answer).__name__}; generate one first.")
    passage = Passage.of(model, answer, seed=seed)
    if (written := passage.answer) is None:
        raise InputError("expected the passage of an answer from model.generate, got that of a text; generate one first.")
    tokens, start = written.tokens, written.start
    # The graph of a long text would hold the weights of all layers and their gradients.
    long = GRAPH * model.weights_size(len(tokens)) > model.memory
    if method is None:
        method = "gradient_times_input" if long or output == "probability" else _best_tested(passage)
    explained = _checked_output(output, method)
    numbers = select_indices(steps, len(tokens) - start, "step")
    members = {**token_sets(sets, tokens), **group_tokens(group_by, tokens)}
    function = passage.input_function("after", task_head=True)
    arrays: dict[str, np.ndarray] = {}
    if method == "token_attribution_last":
        arrays |= _of_hidden_vectors(
            passage,
            written,
            numbers,
            len(function.widths),
            directions=directions,
            exact=exact,
            seed=seed,
            memory=memory,
            progress=progress,
        )
    else:
        with work_bar("attributing", progress) as bar:
            bar.expect(len(numbers))
            if method == "gradient_times_input":
                targets = answer_targets(written, numbers, explained)
                if long:
                    function = replace(function, fused=True)
                available = max(MEMORY, model.memory // 4) if memory is None else memory
                attribution = gradients_times_input(function, targets, available, bar)
            else:
                # One at a time, since each holds hidden states of its own.
                views = (passage.view(step=step, output=explained) for step in numbers)
                attribution, targets = _explained(views, method, bar)
        share = attribution.abs() / attribution.abs().sum(-1, keepdim=True)
        arrays |= {"attribution": attribution.numpy(), "share": share.numpy()}
        arrays["value"] = np.array([target.unchanged for target in targets])
    arrays["probability"] = np.array([written.probabilities[step] for step in numbers])
    if members:
        arrays["set_share"] = np.stack([arrays["share"][:, positions].sum(-1) for positions in members.values()])
    positions = [start + step for step in numbers]
    coordinates = {
        "step": numbers,
        "step_token": ("step", [tokens.texts[position] for position in positions]),
        "token_position": ("step", positions),
        "predicted_at": ("step", [written.positions[step] for step in numbers]),
        "source": np.arange(len(tokens)),
        "source_token": ("source", list(tokens.texts)),
        "source_special": ("source", list(tokens.special)),
        "source_span": ("source", list(tokens.span_names or [""] * len(tokens))),
        **({"set": list(members)} if members else {}),
    }
    settings = {"method": method, "output": output, "directions": directions, "exact": exact, "seed": seed}
    return make_result("answer_attribution", arrays, coordinates, passage.source, settings)


def _best_tested(passage: Passage) -> str:
    """AttnLRP; gradient × attention for blocks whose layout it does not know."""
    try:
        _ = passage.blocks
    except UnsupportedModelError:
        return "gradient_attention"
    return "attnlrp"


def _checked_output(output: str, method: str) -> Output:
    """What to explain of a token; raises if the method cannot."""
    if not find_map(method).explains_output:
        raise InputError(f"expected an explanation of the output ({', '.join(EXPLANATIONS)}), got the map of layers {method!r}.")
    if output == "logit":
        return output
    if output != "probability":
        raise InputError(f"expected the output 'logit' or 'probability', got {output!r}.")
    if method not in OF_PROBABILITIES:
        raise InputError(f"expected {' or '.join(OF_PROBABILITIES)} for a probability, got {method!r}; explain the logit.")
    return output


def gradients_times_input(function: InputFunction, targets: Sequence[Target], memory: int, bar: WorkBar) -> Tensor:
    """⟨x_j, ∂f/∂x_j⟩ (target source) of numbers that are each read at one position.

    f depends on the input through the last hidden vector e at its position only, so that one backward pass through the head
    finds ∂f/∂e for all targets, and ∂f/∂x = ∂f/∂e·∂e/∂x takes one pass through the layers per target.
    """
    positions = torch.tensor([target.positions[0] for target in targets])

    def compute() -> Tensor:
        pullback = Pullback(function, memory, bar)
        readout = pullback.readout(lambda result: torch.stack([target.value(result)[0] for target in targets]).sum())
        gradients = pullback.pull_each(len(function.widths), positions, readout[positions])
        return torch.cat([(function.x * gradient).double().sum(-1).cpu() for gradient in gradients])

    attribution = differentiable(function, compute)
    if not bool(attribution.isfinite().all()) or bool((attribution == 0).all(-1).any()):
        raise InputError("expected finite gradients of every generated token, got none; check the model's weights.")
    return attribution


def _explained(passages: Iterable[Passage], method: str, bar: WorkBar) -> tuple[Tensor, list[Target]]:
    """An explanation (step source) of one token after the other, and what was explained."""
    kind, rows, targets = find_map(method), [], []
    for passage in passages:
        rows.append(kind.compute(passage))
        targets.append(passage.target)
        bar.advance(1)
    return torch.stack(rows), targets


def _of_hidden_vectors(
    passage: Passage, answer: Answer, steps: Sequence[int], layer: int, **options: Any
) -> dict[str, np.ndarray]:
    """Hidden Token Attribution of the vectors in the last layer from which tokens are predicted."""
    targets = [answer.positions[step] for step in steps]
    result = token_attribution(passage.model, passage, layers=[layer], targets=targets, **options).sel(layer=layer)
    names = {"attribution": "contribution", "share": "contribution", "error": "error", "low": "low", "high": "high"}
    return {name: result[of].values for name, of in names.items()}
