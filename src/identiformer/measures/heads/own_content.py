"""The self-contribution of each key's vector, by which a reading multiplies contributions."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.errors import InputError, MemoryBudgetError, ModelWarning, UnsupportedModelError
from identiformer.measures.attribution.hidden_token import MEMORY, token_attribution, weights_of
from identiformer.measures.effective import check_budget
from identiformer.passage import Passage
from identiformer.progress import WorkBar
from identiformer.trace import AttentionStack

TANGENTS = 3
"""How many times the weights of all layers a pass with tangents holds at least."""
DIRECTIONS = 2
"""For self-contributions, whose error is then about 0.01: a reading needs no more."""


def attribute(
    passage: Passage, layers: Sequence[int] | None = None, directions: int = DIRECTIONS, progress: bool | WorkBar = False
) -> xr.Dataset | None:
    """The attribution of the vectors that the keys of these layers are made of, all by default.

    None where a model cannot be attributed, or nothing needs it.
    """
    stack = passage.stack
    chosen = range(1, len(stack.layers) + 1) if layers is None else layers
    if stack.kind == "cross":
        needed = {len(passage.trace.stack("encoder").layers)}  # keys are made of the encoder's output
    else:
        needed = {number - 1 for number in chosen if number > 1 and stack.kind != "decoder"}
    if not needed:
        return None
    if stack.kind != "self":
        passage = Passage(passage.model, passage.text, truncate=True)  # an encoder-decoder is attributed in its encoder
    layers = sorted(needed)

    def compute() -> xr.Dataset:
        memory = MEMORY + weights_of(passage.model)
        # Before the states of all modules are recorded.
        check_budget(TANGENTS * passage.model.weights_size(passage.batch.longest), memory, "use a shorter text")
        return token_attribution(passage.model, passage, layers=layers, directions=directions, memory=memory, progress=progress)

    try:
        return passage.once(("own content", *layers, directions), compute)
    except UnsupportedModelError:
        return None
    except MemoryBudgetError as error:
        warnings.warn(f"self-contributions are left out of the reading: {error}", ModelWarning, stacklevel=2)
        return None


def self_contributions(attribution: xr.Dataset | None, stack: AttentionStack, numbers: list[int]) -> tuple[Tensor, Tensor]:
    """c_jj of the vectors that the keys of each layer are made of, and its error; 1 at layer 1, NaN where it is unknown."""
    shares, errors = np.full((2, len(numbers), len(stack.keys)), np.nan)
    layers = [] if attribution is None else attribution["layer"].values.tolist()
    if attribution is not None and attribution.sizes["source"] != len(stack.keys):
        raise InputError(
            f"expected an attribution of the same text ({len(stack.keys)} tokens), got one of {attribution.sizes['source']}."
        )
    for row, number in enumerate(numbers):
        if stack.kind == "cross":
            source = max(layers, default=None)  # keys are made of the encoder's output
        elif stack.kind == "decoder":
            source = None
        else:
            source = number - 1
        if source == 0:
            shares[row], errors[row] = 1.0, 0.0
        elif attribution is not None and source in layers:
            of_layer = attribution.sel(layer=source)
            shares[row], errors[row] = of_layer.self_contribution.values, np.diagonal(of_layer.error.values)
    return torch.from_numpy(shares), torch.from_numpy(errors)
