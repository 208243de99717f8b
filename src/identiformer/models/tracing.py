"""Run a model once over a batch and record its attention."""

from collections.abc import Sequence
from typing import Literal

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.custom_modules import attends_outside_interface
from identiformer.models.attention.interface import FUSED, WEIGHTS, recording
from identiformer.models.attention.layers import Recorder
from identiformer.models.encoding.text import Batch
from identiformer.models.loaded import LoadedModel
from identiformer.trace import Trace

Form = Literal["weights", "factored"]


def trace_batch(model: LoadedModel, batch: Batch, form: Form | None, raw_norms: bool, rows: Sequence[int]) -> list[Trace]:
    """One trace per example of a batch; see `Model.trace`."""
    if form is None:
        form = "weights" if batch.examples * model.weights_size(batch.longest) <= model.memory else "factored"
    wrong = [row for row in rows if not 0 <= row < batch.longest]
    if wrong:
        raise InputError(f"expected rows from 0 to {batch.longest - 1}, got {wrong[0]}.")
    family = model.backbone.config.model_type
    if form == "factored" and (not model.backbone._supports_sdpa or attends_outside_interface(model.backbone)):
        raise UnsupportedModelError(f"the {family} family has no fused attention; use form='weights' and a shorter text.")
    recorder, replica = Recorder(model.sites(batch), batch, family, raw_norms, rows), model.replica()
    with recording(replica, WEIGHTS if form == "weights" else FUSED, recorder):
        model.forward(replica, batch.inputs)
    return [
        Trace(recorder.stacks(example), model.source(batch, example, form), model.memory) for example in range(batch.examples)
    ]
