"""What a patched run changes: the model's output, and what a language model predicts."""

from dataclasses import asdict
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from identiformer.models import Model
from identiformer.models.encoding.text import readable_tokens
from identiformer.models.interventions.patching import Rerun

TOP = 5


def change_of_output(rerun: Rerun) -> dict[str, float]:
    """The numbers of the output's `Change` by name."""
    return {name: value for name, value in asdict(rerun.output).items() if name != "where"}


def predicts_tokens(model: Model) -> bool:
    """Whether a model outputs logits of tokens at the positions of its text."""
    network = model.network
    return (
        model.tokenizer is not None
        and not network.config.is_encoder_decoder
        and getattr(network, "get_output_embeddings", lambda: None)() is not None
    )


def predictions(model: Model, rerun: Rerun, positions: list[int], top: int = TOP) -> xr.Dataset:
    """The predictions of a language model at some positions before and after a patched run; at none for other models.

    Over (position, rank), the most probable first: `token_before` and `probability_before` of the unpatched run, `token_after`
    and `probability_after`. Over (position): `total_variation`, ½Σ|p - p'| over the whole vocabulary.
    """
    if not predicts_tokens(model) or rerun.before.ndim != 3:
        return xr.Dataset(coords={"position": np.arange(0)})
    found = [_prediction(model, rerun.before[0, position], rerun.after[0, position], top) for position in positions]
    return xr.concat(found, "position").assign_coords(position=positions)


def _prediction(model: Model, before: Tensor, after: Tensor, top: int) -> xr.Dataset:
    runs = {"before": before.double().softmax(-1), "after": after.double().softmax(-1)}
    found: dict[str, Any] = {"total_variation": float((runs["after"] - runs["before"]).abs().sum() / 2)}
    for name, probabilities in runs.items():
        largest, ids = probabilities[: len(model.tokenizer)].topk(min(top, len(probabilities)))
        found[f"token_{name}"] = ("rank", list(readable_tokens(model.tokenizer, ids.tolist())))
        found[f"probability_{name}"] = ("rank", largest.tolist())
    return xr.Dataset(found)
