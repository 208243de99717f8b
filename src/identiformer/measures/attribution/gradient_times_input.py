"""Gradient times input: which input tokens increase a scalar output and which decrease it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.errors import InputError
from identiformer.models import Model
from identiformer.models.derivatives.input_function import InputFunction
from identiformer.passage import Passage, Readable
from identiformer.results import make_result

Output = int | Callable[[Any], Tensor]


def gradient_times_input(
    model: Model,
    text: Readable,
    pair: str | None = None,
    *,
    output: Output | None = None,
    input_site: str = "after",
    truncate: bool = False,
) -> xr.Dataset:
    """Gradient times input: the signed attribution ⟨x_i, ∂f/∂x_i⟩ of a scalar output f to each input token. Appendix C.1.

    Parameters
    ----------
    model : Model
        A model with its task head, as `load(hf_model, tokenizer)` keeps it.
    text, pair, truncate
        As in `token_attribution`.
    input_site : {"after", "before"}
        x after the LayerNorm of the embeddings, or before it. Before it the attribution is zero up to rounding, because the norm
        ignores the length of x, so that no output changes along x.
    output : int or callable, optional
        The index of a logit (a class, or a vocabulary token after the last position), or a function from the output of the
        network to one number. By default the largest logit.

    Returns
    -------
    xarray.Dataset
        `attribution` (source): positive where the token increases the output. `gradient_norm` (source): ‖∂f/∂x_i‖. `value` ():
        the output itself.

    Examples
    --------
    >>> import identiformer as idf
    >>> model = idf.load("minilm")
    >>> result = idf.gradient_times_input(model, "He said.", output=lambda result: result.last_hidden_state[0, 0, 0])
    >>> result.source_token.values.tolist()
    ['[CLS]', 'he', 'said', '.', '[SEP]']
    """
    passage = Passage.of(model, text, pair, truncate=truncate)
    function, tokens = passage.input_function(input_site, task_head=True), passage.tokens
    value, gradient = input_gradient(function, partial(_scalar, output=output))
    arrays = {
        "attribution": (function.x * gradient).double().sum(-1),
        "gradient_norm": gradient.double().norm(dim=-1),
        "value": float(value.detach()),
    }
    coordinates = {"source": np.arange(len(tokens)), "source_token": ("source", list(tokens.texts))}
    explained = output if isinstance(output, int) else "largest logit" if output is None else "a function"
    settings = {"output": explained, "input_site": input_site}
    return make_result("gradient_times_input", arrays, coordinates, passage.source, settings)


def input_gradient(function: InputFunction, scalar: Callable[[Any], Tensor]) -> tuple[Tensor, Tensor]:
    """A number in the network's output, and its gradient with respect to x."""
    change = function.no_change.requires_grad_()
    with torch.enable_grad():
        value = scalar(function.run(change).result)
        (gradient,) = torch.autograd.grad(value, change)
    if not bool(gradient.isfinite().all()):
        raise InputError("expected finite gradients, got NaN or infinity; check the model's weights and the output.")
    if not bool(gradient.any()):
        raise InputError(
            "expected an output that depends on the input, got one whose gradient is zero at every token; check the model's "
            "weights, or explain another output."
        )
    return value, gradient


def _scalar(result: Any, output: Output | None) -> Tensor:
    if callable(output):
        value = output(result)
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise InputError("expected output= to return one number that depends on the input; index its result down to one.")
        return value.reshape(())
    logits = getattr(result, "logits", None)
    if logits is None:
        raise InputError(
            "expected a network with a task head, whose logits can be explained, got one without; load one, or pass a function "
            "of its output as output=."
        )
    last = logits[0] if logits.ndim == 2 else logits[0, -1]
    if output is not None and not 0 <= output < len(last):
        raise InputError(f"expected the index of a logit from 0 to {len(last) - 1}, got {output}.")
    return last.max() if output is None else last[output]
