"""Sun & Marasović 2021: effective attention of fine-tuned models, by kind of token and by pattern, against raw attention."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from identiformer.equations import head_contributions
from identiformer.equations.attention.patterns import pattern_shares
from identiformer.figures.style import axes_or_new
from identiformer.measures.attention.patterns import separators
from identiformer.models import Model
from identiformer.models.attention.call import Call
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.paper.computations.study import Study, mean_over_texts
from identiformer.paper.recipes.declarations import Outcome, Paper, percentages, separator
from identiformer.results import make_result
from identiformer.texts import Example, read_corpus
from identiformer.tokens import Tokens
from identiformer.trace import Trace

COMPONENTS = ("raw", "effective", "contribution")
KINDS = ("[CLS]", "[SEP]", "punctuation", "other")
PATTERNS = ("vertical", "diagonal", "block")
"""Shares of weight: on the one key that receives most, or on separators; on the token itself and its neighbors; within the
query's own text of a pair. A map in which none is dominant is heterogeneous (Kovaleva et al., 2019)."""
PADDED = 128
"""Tokens to which the public code pads."""


def padded_length(model: Model) -> int:
    """Tokens to which texts are padded: as in the public code, or as many as the model takes."""
    return min(PADDED, model.positions or PADDED)


def attention_by_kind(trace: Trace) -> xr.Dataset:
    """The share of absolute weight that each kind of token receives, and that follows each pattern.

    `share` over (component, layer, head, kind) and `pattern_share` over (component, layer, head, pattern), for raw and effective
    attention and for contributions; means over rows.
    """
    stack = trace.stack()
    kinds, layers = _kinds(stack.queries), [layer.recorded() for layer in stack.layers]
    shares, patterns = [], []
    for record in layers:
        weights = record.weights.double()
        maps = {
            "raw": weights,
            "effective": record.effective().matrices().double().abs(),
            "contribution": head_contributions(weights, record.values.double(), record.projection)
            .contribution.abs()
            .nan_to_num(),
        }
        rows = {name: each / each.sum(-1, keepdim=True).clamp(min=1e-30) for name, each in maps.items()}
        shares.append(torch.stack([torch.stack([rows[name][..., kind].sum(-1).mean(-1) for kind in kinds], -1) for name in rows]))
        patterns.append(torch.stack([_patterns(rows[name], record.visible, stack.queries) for name in rows]))
    arrays = {"share": torch.stack(shares, 1), "pattern_share": torch.stack(patterns, 1)}
    coordinates = {
        "component": list(COMPONENTS), "layer": [record.number for record in layers], "head": np.arange(layers[0].heads),
        "kind": list(KINDS), "pattern": list(PATTERNS),
    }  # fmt: skip
    return make_result("attention_by_kind", arrays, coordinates, trace.source, {})


def _kinds(tokens: Tokens) -> list[Tensor]:
    special, texts = torch.tensor(tokens.special), list(tokens.texts)
    first = torch.arange(len(texts)) == 0
    marks = torch.tensor(separators(tokens)) & ~special
    return [special & first, special & ~first, marks, ~special & ~marks]


def _patterns(rows: Float[Tensor, "head query key"], visible: object, tokens: Tokens) -> Float[Tensor, "head pattern"]:
    shares = pattern_shares(rows, visible, separators=torch.tensor(separators(tokens)), ids=torch.tensor(tokens.ids))  # type: ignore
    segments = torch.tensor(tokens.segments)
    same = segments[:, None] == segments
    within = (
        torch.where(same, rows, 0).sum(-1).mean(-1) if bool((segments > 0).any()) else torch.full_like(shares.self, torch.nan)
    )
    diagonal = torch.stack([share.nan_to_num() for share in (shares.previous, shares.self, shares.next)]).sum(0)
    return torch.stack([shares.peak + shares.separator, diagonal, within], -1)


def padding_recipe(model: Model, text: str, pair: str | None) -> xr.Dataset:
    """What projecting with padded values, and removing the padding afterwards, does to effective attention.

    The text is padded to 128 tokens, or to as many as the model takes; the values of the padding take part in the projection, as
    in public code; then the rows and columns of the text are kept. `output_change` is ‖(A' - A)V‖/‖AV‖, which is 0
    for effective attention; `correlation` is that of A' with A, `true_correlation` that of A⊥ with A.
    """
    calls: list[Call] = []
    padded = padded_length(model)
    inputs = model.tokenizer(text, pair, padding="max_length", truncation=True, max_length=padded, return_tensors="pt")
    replica = model.replica()
    with recording(replica, WEIGHTS, calls.append):
        model.forward(replica, dict(inputs))
    length = int(inputs["attention_mask"].sum())
    trace = model.limited(padded).trace(text, pair, truncate=True, form="weights")
    columns: dict[str, list[Tensor]] = {name: [] for name in ("output_change", "correlation", "true_correlation")}
    for call, layer in zip(calls, trace.stack().layers, strict=True):
        record = layer.recorded()
        weights, values = call.weights[0].double(), call.value[0].double()  # type: ignore[index]
        basis, sigma, _ = torch.linalg.svd(values, full_matrices=False)
        kept = basis * (sigma > sigma[:, :1] * padded * torch.finfo(torch.float32).eps)[:, None]
        projected = (weights @ kept @ kept.mT)[:, :length, :length]
        raw, used = weights[:, :length, :length], values[:, :length]
        change = ((projected - raw) @ used).flatten(1).norm(dim=-1) / (raw @ used).flatten(1).norm(dim=-1)
        columns["output_change"].append(change)
        columns["correlation"].append(_correlation(projected, raw))
        columns["true_correlation"].append(_correlation(record.effective().matrices().double(), record.weights.double()))
    arrays = {name: torch.stack(values).numpy() for name, values in columns.items()}
    arrays["tokens"] = np.full(arrays["correlation"].shape, length)
    return make_result("padding_recipe", arrays, {}, trace.source, {"padded": padded})


def _correlation(first: Tensor, second: Tensor) -> Tensor:
    one, other = (each.flatten(1) - each.flatten(1).mean(-1, keepdim=True) for each in (first, second))
    return (one * other).sum(-1) / (one.norm(dim=-1) * other.norm(dim=-1))


SUN = Paper(
    "sun2021",
    "Effective Attention Sheds Light On Interpretability, reproduced",
    "Sun and Marasović, Effective Attention Sheds Light On Interpretability, Findings of ACL 2021",
    "bert-base-uncased, fine-tuned",
)
TASKS = {"1a": "MRPC", "1b": "CoLA", "1c": "SST-2"}
PATTERN_TASKS = {"2a": "MRPC", "2b": "CoLA", "2c": "SST-2"}
TEXTS = {"full": 60, "quick": 6}
DOMINANT = 0.4
"""Share of weight from which on a pattern is dominant; within one text of a pair, three quarters."""
WITHIN = 0.75
CLASSES = ("vertical", "diagonal", "block", "heterogeneous")
UNDECIDED = 0.01
COLORS = {"raw": "#D55E00", "effective": "#0072B2", "contribution": "#009E73"}


def _examples(study: Study, task: str) -> Sequence[Example]:
    return read_corpus(study.data.files[task], TEXTS[study.scale.name])


def _by_kind(study: Study, task: str, tuned: bool) -> xr.Dataset:
    """The mean over texts."""
    state = "finetuned" if tuned else "plain"

    def compute() -> xr.Dataset:
        model: Model = study.finetuned(task) if tuned else study.model
        found = [
            attention_by_kind(model.limited(padded_length(model)).trace(text.text, text.pair, truncate=True, form="weights"))
            for text in _examples(study, task)
        ]
        return mean_over_texts(found)

    return study.stored(f"kinds_{task}_{state}", compute)


def _caption(study: Study, task: str, *_: str) -> str:
    trained = "all" if study.scale.trained is None else f"{study.scale.trained}"
    return (
        f"{study.model_name}, as it is and fine-tuned on {trained} examples of {task}; {TEXTS[study.scale.name]} texts of its "
        "development set. Shares of the absolute weights of a row, means over rows, heads and texts."
    )


@SUN.recipe(TASKS, "attention by kind of token, {}", data="{0}, {0} train", caption=_caption, requires=(separator,))
def draw_kinds(study: Study, task: str) -> Figure:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for ax, kind in zip(figure.subplots(1, len(KINDS), sharey=True), KINDS, strict=True):
        for component, color in COLORS.items():
            for tuned, style in ((False, "--"), (True, "-")):
                share = _by_kind(study, task, tuned).share.sel(component=component, kind=kind).mean("head")
                label = component if tuned else None
                ax.plot(share["layer"], 100 * share, style, color=color, label=label)
        ax.set(title=kind, xlabel="layer")
        ax.grid(alpha=0.3)
    figure.axes[0].set_ylabel("received, %")
    figure.axes[-1].legend(frameon=False, title="fine-tuned (dashed: as it is)", fontsize=8, title_fontsize=8)
    return figure


def _raw_and_effective(study: Study, task: str, kinds: list[str]) -> tuple[float, float, str]:
    shares = _by_kind(study, task, tuned=True).share.sel(kind=kinds).sum("kind")
    means = [float(shares.sel(component=component).mean()) for component in COMPONENTS]
    return means[0], means[1], f"{percentages(means)} of raw, effective attention and contributions"


@SUN.claim(TASKS, "on {}, effective attention is less tied to [CLS] and [SEP] than raw attention")
def less_on_special_tokens(study: Study, task: str) -> Outcome:
    raw, effective, evidence = _raw_and_effective(study, task, ["[CLS]", "[SEP]"])
    return None if abs(raw - effective) < UNDECIDED else effective < raw, evidence


@SUN.claim(TASKS, "on {}, more effective than raw attention is on words, where the task's features are")
def more_on_words(study: Study, task: str) -> Outcome:
    raw, effective, evidence = _raw_and_effective(study, task, ["other"])
    return None if abs(raw - effective) < UNDECIDED else effective > raw, evidence


@SUN.claim(TASKS, "on {}, fine-tuning changes the two differently")
def finetuning_differs(study: Study, task: str) -> Outcome:
    """The change of the share of [CLS] and [SEP], per layer and head."""
    changes = {}
    for component in COMPONENTS[:2]:
        after, before = (_by_kind(study, task, tuned).share.sel(component=component) for tuned in (True, False))
        changes[component] = (after - before).sel(kind=["[CLS]", "[SEP]"]).sum("kind").values
    raw, effective = (float(np.abs(change).mean()) for change in changes.values())
    difference = float(np.abs(changes["raw"] - changes["effective"]).mean())
    evidence = (
        f"mean change of a head's share on [CLS] and [SEP]: {100 * raw:.2f} points raw, {100 * effective:.2f} effective, "
        f"{100 * difference:.2f} between them"
    )
    return None if max(raw, effective) < UNDECIDED else difference > max(raw, effective) / 2, evidence


def _classes(study: Study, task: str, component: str) -> dict[str, int]:
    """The number of heads of each pattern class."""
    share = _by_kind(study, task, tuned=True).pattern_share.sel(component=component)
    vertical, diagonal, block = (share.sel(pattern=name).values for name in CLASSES[:3])
    strongest = np.where(vertical >= diagonal, 0, 1)
    found = np.where(np.maximum(vertical, diagonal) >= DOMINANT, strongest, np.where(np.nan_to_num(block) >= WITHIN, 2, 3))
    return {name: int((found == number).sum()) for number, name in enumerate(CLASSES)}


@SUN.recipe(PATTERN_TASKS, "heads by pattern, {}", data="{0}, {0} train", caption=_caption, requires=(separator,))
def draw_classes(study: Study, task: str) -> Axes:
    ax = axes_or_new(None, 6, 3.2)
    places = np.arange(len(CLASSES))
    for number, (component, color) in enumerate(COLORS.items()):
        counts = list(_classes(study, task, component).values())
        ax.bar(places + 0.27 * (number - 1), counts, 0.25, color=color, label=component)
    ax.set_xticks(places, CLASSES)
    ax.set_ylabel("heads")
    ax.legend(frameon=False)
    return ax


@SUN.claim(PATTERN_TASKS, "on {}, fewer heads are vertical in effective than in raw attention")
def fewer_vertical(study: Study, task: str) -> Outcome:
    raw, effective, contribution = (_classes(study, task, component) for component in COMPONENTS)
    counts = [each["vertical"] for each in (raw, effective, contribution)]
    total = sum(raw.values())
    evidence = f"vertical: {counts[0]} raw, {counts[1]} effective, {counts[2]} by contribution, of {total} heads"
    return None if counts[0] == counts[1] else counts[1] < counts[0], evidence


def _padding(study: Study) -> xr.Dataset:
    def compute() -> xr.Dataset:
        found = [padding_recipe(study.model, text.text, text.pair) for text in _examples(study, "MRPC")]
        return mean_over_texts(found)

    return study.stored("padding", compute)


@SUN.recipe(
    "3",
    "What padding does to effective attention in the public recipe",
    data="MRPC",
    caption=lambda study, *_: (
        f"{study.model_name}; {TEXTS[study.scale.name]} pairs of MRPC, padded to {padded_length(study.model)} tokens. The public "
        "recipe projects with the values of the padding and removes it afterwards; ours leaves it out before. One dot per head."
    ),
    requires=(separator,),
)
def draw_padding(study: Study) -> Figure:
    result = _padding(study)
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    layers = np.arange(1, result.sizes["layer"] + 1)
    for name, color, label in (
        ("true_correlation", "#0072B2", "effective attention"),
        ("correlation", "#D55E00", "public recipe"),
    ):
        right.plot(layers, result[name].mean("head"), "-", color=color, label=label)
        right.plot(np.repeat(layers, result.sizes["head"]), result[name].values.ravel(), ".", color=color, alpha=0.5)
    left.plot(layers, 100 * result.output_change.mean("head"), "-", color="#D55E00")
    left.plot(np.repeat(layers, result.sizes["head"]), 100 * result.output_change.values.ravel(), ".", color="#D55E00", alpha=0.5)
    left.set_ylabel("change of the head's output, %")
    right.set_ylabel("correlation with raw attention")
    right.legend(frameon=False)
    for ax in (left, right):
        ax.set_xlabel("layer")
        ax.grid(alpha=0.3)
    return figure


@SUN.claim("3", "the public recipe leaves the output of a head unchanged, as effective attention does")
def padding_is_harmless(study: Study) -> Outcome:
    result = _padding(study)
    change, worst = float(result.output_change.mean()), float(result.output_change.max())
    correlations = (
        f"correlation with raw {float(result.correlation.mean()):.3f} instead of {float(result.true_correlation.mean()):.3f}"
    )
    tokens = f"with {float(result.tokens.mean()):.0f} of {padded_length(study.model)} tokens"
    return worst < 1e-3, f"{tokens} it changes by {change:.1%}, at most {worst:.1%}; {correlations}"
