"""What the paper leaves open of effective attention: its signs, its variants (§7), and models that were fine-tuned."""

from collections.abc import Callable

import xarray as xr
from matplotlib.figure import Figure

from identiformer import figures
from identiformer.measures import attention_variants
from identiformer.paper.claims import Shape, listed
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.recipe import Recipe, Table, whole
from identiformer.texts import Example

TELLING = 0.01
"""A difference of shares below which nothing is said."""


def _draw_negative(study: Study) -> Figure:
    return whole(figures.draw_over_layers({"A⊥": study.attention().negative_share}, "share of A⊥ that is negative"))


def _negative_caption(study: Study) -> str:
    shares = study.attention().negative_share
    return (
        f"{study.model_name}; {study.scale.segments} pairs of spans of Wikipedia: the sum of the negative weights of a head's "
        f"A⊥, over that of all weights' absolute values. {100 * float(shares.mean()):.1f} % on average, "
        f"{100 * float(shares.max()):.1f} % in the head with most."
    )


def _variants(study: Study) -> xr.Dataset:
    layer = max(1, study.layers // 2)

    def of(text: Example) -> xr.Dataset:
        return attention_variants(study.model.trace(text.text, text.pair, truncate=True, form="weights"), layer)

    each = [study.kept(f"variants_{number}", lambda text=text: of(text)) for number, text in enumerate(study.compared_pairs)]
    return xr.concat(each, "text", combine_attrs="override").mean("text", keep_attrs=True)


def _draw_variants(study: Study) -> Figure:
    result = _variants(study)
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    names = [str(name).replace("_", " ") for name in result["variant"].values]
    panels = {"total_variation": "total variation from raw", "negative_share": "share of negative weight"}
    for ax, (name, label) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        ax.barh(names[::-1], result[name].values[::-1], color="#0072B2")
        ax.set_xlabel(label)
        ax.grid(axis="x", alpha=0.3)
    return figure


def _variants_caption(study: Study) -> str:
    return f"{study.model_name}; the first {study.scale.compared} pairs of MRPC, all heads of layer {max(1, study.layers // 2)}."


def _variants_table(study: Study) -> Table:
    result = _variants(study)
    columns = ("sum_error", "negative_share", "squared_norm", "total_variation", "correlation_with_raw", "output_error")
    rows = [
        (str(name).replace("_", " "), *(f"{float(result[column].sel(variant=name)):.3f}" for column in columns))
        for name in result["variant"].values
    ]
    return Table("means over texts", ("variant", *(column.replace("_", " ") for column in columns)), rows)


def _received(study: Study, task: str, tuned: bool) -> xr.Dataset:
    name = f"attention_{task}_{'finetuned' if tuned else 'plain'}"
    file, limit = study.data.files[task], study.scale.identified[task]
    run = lambda: study.run_over(name, file, ("effective_attention",), limit, model=_model(study, task, tuned))  # noqa: E731
    return study.kept(name, lambda: run()["effective_attention"])


def _model(study: Study, task: str, tuned: bool):  # noqa: ANN202
    return study.finetuned(task) if tuned else study.model


def _draw_finetuned(task: str) -> Callable[[Study], Figure]:
    def draw(study: Study) -> Figure:
        curves = {
            f"{which}, {'fine-tuned' if tuned else 'as it is'}": _received(study, task, tuned)[f"{which}_received"].sel(
                kind="[SEP]"
            )
            for which in ("raw", "effective")
            for tuned in (False, True)
        }
        return whole(figures.draw_over_layers({name: each.mean("head") for name, each in curves.items()}, "received by [SEP]"))

    return draw


def _less_to_special(task: str) -> Shape:
    def holds(study: Study) -> tuple[bool | None, str]:
        received = _received(study, task, tuned=True)
        raw, effective = (
            float(received[f"{which}_received"].sel(kind=["[CLS]", "[SEP]"]).sum("kind").mean()) for which in ("raw", "effective")
        )
        seen = f"{listed([raw, effective])} of raw and effective attention"
        if abs(raw - effective) < TELLING:  # as in texts that are no longer than a head is wide, where the two are one
            return None, seen
        return effective < raw, seen

    return Shape("fine-tuned, effective attention gives less to [CLS] and [SEP] than raw (Sun and Marasović)", holds)


BEYOND_RECIPES = (
    Recipe("B1", "How much of effective attention is negative", ("wiki",), _draw_negative, _negative_caption),
    Recipe("B2", "Variants of effective attention", ("MRPC",), _draw_variants,
           _variants_caption, table=_variants_table),
    *(Recipe(number, f"Attention to [SEP], fine-tuned for {task}", (task, f"{task} train"), _draw_finetuned(task),
             lambda study, task=task: f"{study.model_name}; {study.scale.sentence(task, 'identified')}.",
             (_less_to_special(task),), needs_separator=True)
      for number, task in (("B3a", "MRPC"), ("B3b", "CoLA"))),
)  # fmt: skip
