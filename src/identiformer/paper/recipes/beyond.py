"""Questions beyond the paper: signs and variants of effective attention (§7), fine-tuned models, and what attention predicts."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import rankdata

from identiformer import figures
from identiformer.measures import attention_variants, token_attribution, value_zeroing
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.declarations import Outcome, Table, claim, percentages, recipe, separator
from identiformer.texts import Example

TASKS = {"B3a": "MRPC", "B3b": "CoLA"}
UNDECIDED = 0.01
"""A difference of shares that is too small to decide."""
HEAD_DIRECTIONS = 4
CLEARLY_FALLS = -0.5
"""A rank correlation with depth below which a curve counts as falling."""
AGREEMENTS = {"raw attention": "raw_agreement", "effective attention": "effective_agreement"}


def _negative_caption(study: Study, _: str) -> str:
    shares = study.attention().negative_share
    return (
        f"{study.model_name}; {study.scale.segments} pairs of Wikipedia spans: the sum of the negative weights of a head's A⊥ "
        f"relative to the sum of all absolute weights. {100 * float(shares.mean()):.1f} % on average, "
        f"{100 * float(shares.max()):.1f} % in the head with the most."
    )


@recipe("B1", "Negative share of effective attention", data="wiki", caption=_negative_caption)
def draw_negative(study: Study) -> Axes:
    return figures.draw_over_layers({"A⊥": study.attention().negative_share}, "share of A⊥ that is negative")


def _variants(study: Study) -> xr.Dataset:
    def compute(text: Example) -> xr.Dataset:
        trace = study.model.trace(text.text, text.pair, truncate=True, form="weights")
        return attention_variants(trace, study.middle_layer)

    return study.mean_over_pairs("variants", compute)


def _pairs_caption(study: Study, _: str, detail: str = "") -> str:
    return f"{study.model_name}; the first {study.scale.compared} pairs of MRPC{detail}."


def _variants_table(study: Study) -> Table:
    result = _variants(study)
    columns = ("sum_error", "negative_share", "squared_norm", "total_variation", "correlation_with_raw", "output_error")
    rows = [
        (str(name).replace("_", " "), *(f"{float(result[column].sel(variant=name)):.3f}" for column in columns))
        for name in result["variant"].values
    ]
    return Table("means over texts", ("variant", *(column.replace("_", " ") for column in columns)), rows)


@recipe(
    "B2",
    "Variants of effective attention",
    data="MRPC",
    caption=lambda study, dataset: _pairs_caption(study, dataset, f", all heads of layer {study.middle_layer}"),
    table=_variants_table,
)
def draw_variants(study: Study) -> Figure:
    result = _variants(study)
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    names = [str(name).replace("_", " ") for name in result["variant"].values]
    panels = {"total_variation": "total variation from raw", "negative_share": "share of negative weight"}
    for ax, (name, label) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        ax.barh(names[::-1], result[name].values[::-1], color="#0072B2")
        ax.set_xlabel(label)
        ax.grid(axis="x", alpha=0.3)
    return figure


def _received(study: Study, task: str, component: str, tuned: bool) -> xr.DataArray:
    name, limit = f"attention_{task}_{'finetuned' if tuned else 'plain'}", study.scale.identified[task]
    result = study.attention_over(name, study.data.files[task], limit, task if tuned else None)
    return result[f"{component}_received"]


@recipe(
    TASKS,
    "Attention to [SEP], fine-tuned for {}",
    data="{0}, {0} train",
    caption=lambda study, task, _: f"{study.model_name}; {study.scale.examples(task, study.scale.identified)}.",
    requires=(separator,),
)
def draw_finetuned(study: Study, task: str) -> Axes:
    curves = {
        f"{component}, {'fine-tuned' if tuned else 'as it is'}": _received(study, task, component, tuned).sel(kind="[SEP]")
        for component in ("raw", "effective")
        for tuned in (False, True)
    }
    return figures.draw_over_layers({name: curve.mean("head") for name, curve in curves.items()}, "received by [SEP]")


@claim(TASKS, "after fine-tuning, [CLS] and [SEP] receive less effective than raw attention (Sun and Marasović)")
def special_tokens_receive_less(study: Study, task: str) -> Outcome:
    raw, effective = (
        float(_received(study, task, component, tuned=True).sel(kind=["[CLS]", "[SEP]"]).sum("kind").mean())
        for component in ("raw", "effective")
    )
    evidence = f"{percentages([raw, effective])} of raw and effective attention"
    # In texts with at most as many tokens as a head is wide, the two are the same.
    return None if abs(raw - effective) < UNDECIDED else effective < raw, evidence


def _agreement(results: list[xr.Dataset], attention: str) -> xr.DataArray:
    """The mean over targets, then over texts."""
    return xr.concat([one[AGREEMENTS[attention]].mean("target") for one in results], "text").mean("text")


def _head_attribution(study: Study) -> list[xr.Dataset]:
    def compute(text: Example) -> xr.Dataset:
        return token_attribution(study.model, text.text, text.pair, directions=HEAD_DIRECTIONS, heads=True, truncate=True)

    return study.stored_for_each("heads", study.compared_pairs, compute)


@recipe(
    "B4",
    "Agreement of attention with the attribution of head outputs",
    data="MRPC",
    caption=partial(_pairs_caption, detail=f"; {HEAD_DIRECTIONS} random directions per token"),
)
def draw_head_agreement(study: Study) -> Axes:
    curves = {attention: _agreement(_head_attribution(study), attention) for attention in AGREEMENTS}
    return figures.draw_over_layers(curves, "correlation with the head's attribution", percent=False)


@claim("B4", "the deeper the layer, the less attention agrees with the attribution of a head's output (Pascual et al.)")
def agreement_falls_with_depth(study: Study) -> Outcome:
    raw = _agreement(_head_attribution(study), "raw attention").mean("head").values
    by_layer = f"correlation by layer {' '.join(f'{value:.2f}' for value in raw)}"
    if len(raw) < 3:
        return None, by_layer
    trend = float(np.corrcoef(np.arange(len(raw)), rankdata(raw))[0, 1])
    return trend < CLEARLY_FALLS, f"{by_layer}: rank correlation with depth {trend:.2f}"


def _zeroing_agreement(study: Study, attention: str, special: bool) -> xr.DataArray:
    def compute(text: Example) -> xr.Dataset:
        return value_zeroing(study.model, text.text, text.pair, special=special, truncate=True)

    name = "zeroed" if special else "zeroed_words"
    return _agreement(study.stored_for_each(name, study.compared_pairs, compute), attention)


@recipe("B5", "Agreement of attention with value zeroing", data="MRPC", caption=_pairs_caption)
def draw_zeroing_agreement(study: Study) -> Axes:
    curves = {
        f"{attention.removesuffix(' attention')}, {'all sources' if special else 'words only'}": _zeroing_agreement(
            study, attention, special
        )
        for special in (True, False)
        for attention in AGREEMENTS
    }
    return figures.draw_over_layers(curves, "correlation with the effect of zeroing", percent=False)


@claim(
    {"B5": [("", True), (" among words, without [CLS] and [SEP]", False)]},
    "effective attention predicts the effect of zeroing a value better than raw attention{}",
)
def effective_attention_predicts(study: Study, _: str, special: bool) -> Outcome:
    raw, effective = (float(_zeroing_agreement(study, attention, special).mean()) for attention in AGREEMENTS)
    return effective > raw, f"correlation with the effect: {raw:.3f} for raw, {effective:.3f} for effective attention"
