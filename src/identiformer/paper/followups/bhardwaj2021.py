"""Bhardwaj et al. 2021: encoders whose attention a head's output determines, as accurate as standard ones.

Both encoders are trained here, from scratch; the model that the page is made with lends its name only.
"""

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from identiformer.figures.style import axes_or_new
from identiformer.measures import attention_identifiability, certified_share
from identiformer.models import Model, load
from identiformer.models.library_output import library_versions
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.declarations import Outcome, Paper, Table, counted
from identiformer.results import make_result
from identiformer.texts import read_corpus

BHARDWAJ = Paper(
    "bhardwaj2021",
    "More Identifiable yet Equally Performant Transformers, reproduced",
    "Bhardwaj et al., More Identifiable yet Equally Performant Transformers for Text Classification, ACL 2021",
    "an encoder trained from scratch",
)
TASKS = ("SST-2", "TREC", "movies")
SEEDS = {"full": (0, 1, 2), "quick": (0,)}
TRAINED = {"full": None, "quick": 256}
EPOCHS = {"full": None, "quick": 1}
TEXTS = {"full": 4, "quick": 1}
LENGTHS = (16, 32, 48, 64, 96, 128)
KEY_WIDTHS = (2, 4, 8, 16)
CERTIFIED_ROWS = 3
KEY_WIDTH = 4
"""That of Figure 1."""
MARGIN = 0.03
"""A difference of accuracy that counts as none."""
LEARNED = 0.05
"""Accuracy above that of the most frequent label from which on an encoder counts as trained."""
COLORS = {"standard": "#D55E00", "identifiable": "#0072B2"}


def _accuracy(study: Study, task: str, key_width: int | None = None) -> xr.Dataset:
    from identiformer.finetuning.variants import train_variants  # training classes take long to import

    scale, folder = study.scale.name, _folder(study, task, key_width)
    return study.stored(
        f"variants_{folder.name}",
        lambda: train_variants(
            task, study.data.name, out=folder, seeds=SEEDS[scale] if key_width is None else (0,),
            key_width=key_width or KEY_WIDTH, limit=TRAINED[scale], epochs=EPOCHS[scale], progress=study.progress,
        ),
    )  # fmt: skip


def _folder(study: Study, task: str, key_width: int | None) -> Path:
    return study.folder / "variants" / (task if key_width is None else f"{task}-{key_width}")


def _trained(study: Study, task: str, variant: str, key_width: int | None = None) -> Model:
    _accuracy(study, task, key_width)
    return load(_folder(study, task, key_width) / f"{variant}-0")


def _accuracy_caption(study: Study, *_: str) -> str:
    seeds, limit = len(SEEDS[study.scale.name]), TRAINED[study.scale.name]
    examples = "all training examples" if limit is None else f"the first {limit} training examples"
    return (
        f"Two layers of four heads, width 64, trained from scratch on {examples}, {counted(seeds, 'seed')}; equally many weights "
        "in a layer, and the same order of examples. Bars: the 95% interval of the difference, by a bootstrap."
    )


def _accuracy_table(study: Study) -> Table:
    rows = []
    for task in TASKS:
        result = _accuracy(study, task)
        low, high = float(result.difference_low), float(result.difference_high)
        standard, identifiable = ("  ".join(f"{100 * one:.1f}" for one in result.accuracy.sel(variant=v).values) for v in COLORS)
        ratio = float(result.parameters.sel(variant="identifiable") / result.parameters.sel(variant="standard"))
        difference = f"{100 * float(result.difference):+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        rows.append((task, standard, identifiable, difference, f"{ratio:.3f}"))
    return Table(
        "accuracy in %, by seed", ("task", "standard", "identifiable", "difference (95% interval)", "ratio of weights"), rows
    )


@BHARDWAJ.recipe(
    "1",
    "Accuracy of the identifiable minus that of the standard encoder",
    data=", ".join(f"{task}, {task} train" for task in TASKS),
    caption=_accuracy_caption,
    table=_accuracy_table,
)
def draw_accuracy(study: Study) -> Axes:
    ax = axes_or_new(None, 6, 2.6)
    for row, task in enumerate(TASKS):
        result = _accuracy(study, task)
        low, middle, high = (100 * float(result[name]) for name in ("difference_low", "difference", "difference_high"))
        ax.plot([low, high], [row, row], color=COLORS["identifiable"], linewidth=2)
        ax.plot(middle, row, "o", color=COLORS["identifiable"])
    ax.axvspan(-100 * MARGIN, 100 * MARGIN, color="0.9", zorder=0, label=f"within {100 * MARGIN:.0f} points")
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set_yticks(range(len(TASKS)), TASKS)
    ax.set(ylim=(len(TASKS) - 0.5, -0.5), xlabel="points of accuracy")
    ax.legend(frameon=False, loc="best")
    return ax


@BHARDWAJ.claim({"1": list(TASKS)}, "on {}, the identifiable encoder is as accurate as the standard one")
def is_as_accurate(study: Study, task: str) -> Outcome:
    """Parity holds if the whole interval is within the margin, and fails if it is below zero."""
    result = _accuracy(study, task)
    best, majority = float(result.accuracy.mean("seed").max()), float(result.majority)
    if best < majority + LEARNED:
        return None, f"neither has learned the task: {100 * best:.1f} %, and {100 * majority:.1f} % for the most frequent label"
    low, middle, high = (float(result[name]) for name in ("difference_low", "difference", "difference_high"))
    evidence = f"{100 * middle:+.1f} points, 95% interval {100 * low:+.1f} to {100 * high:+.1f}"
    verdict = True if low >= -MARGIN and high <= MARGIN else False if high < 0 else None
    return verdict, evidence if verdict is not None else f"{evidence}, wider than ±{100 * MARGIN:.0f}"


def _ranks(study: Study) -> xr.Dataset:
    def compute() -> xr.Dataset:
        reviews = read_corpus(study.data.files["movies"], TEXTS[study.scale.name])
        ranks, nullities, certified = [], [], []
        for variant in COLORS:
            model = _trained(study, "movies", variant)
            for length in LENGTHS:
                short = model.limited(length)
                traces = [short.trace(review.text, truncate=True, form="weights") for review in reviews]
                layers = range(1, len(traces[0].stack().layers) + 1)
                found = [[attention_identifiability(trace, layer) for layer in layers] for trace in traces]
                ranks.append(np.mean([[one["rank"].mean("query") for one in layers] for layers in found], 0))
                nullities.append(np.mean([[float(one.layer_nullity.mean()) for one in layers] for layers in found], 0))
                shares = [certified_share(trace, rows=CERTIFIED_ROWS).certified.values for trace in traces]
                certified.append(np.mean(shares, 0))
        found = {"rank": ranks, "layer_nullity": nullities, "certified": certified}
        arrays = {name: np.reshape(some, (len(COLORS), len(LENGTHS), *some[0].shape)) for name, some in found.items()}
        coordinates = {"variant": list(COLORS), "length": list(LENGTHS)}
        settings = {"texts": len(reviews), "rows": CERTIFIED_ROWS}
        return make_result("rank_by_length", arrays, coordinates, _source(study, "movies"), settings)

    return study.stored("ranks", compute)


def _source(study: Study, task: str) -> dict[str, str]:
    return _trained(study, task, "identifiable").identity | library_versions()


@BHARDWAJ.recipe(
    "2",
    "Rank of T, and nullity of the layer, by text length",
    data="movies, movies train",
    caption=lambda study, *_: (
        f"Encoders trained on movies, seed 0; {counted(TEXTS[study.scale.name], 'review')} cut to each length. Left: rank of T "
        "of a head, mean and range over heads and layers. Right: directions of all heads' weights together that leave the "
        "layer's output unchanged."
    ),
)
def draw_ranks(study: Study) -> Figure:
    result = _ranks(study)
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for variant, color in COLORS.items():
        rank = result["rank"].sel(variant=variant).stack(all=("layer", "head"))
        left.plot(LENGTHS, rank.mean("all"), "o-", color=color, label=variant)
        left.fill_between(LENGTHS, rank.min("all"), rank.max("all"), color=color, alpha=0.2)
        nullity = result.layer_nullity.sel(variant=variant).mean("layer")
        # The two are often equal: a wide line below a dashed one shows both.
        below = variant == "standard"
        right.plot(LENGTHS, nullity, "-" if below else "--", linewidth=5 if below else 2, color=color, label=variant)
    left.plot(LENGTHS, LENGTHS, ":", color="0.5", label="tokens")
    left.set(ylim=(0, 80), ylabel="rank of T")
    right.set_ylabel("nullity of the layer")
    for ax in (left, right):
        ax.set_xlabel("tokens")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    return figure


@BHARDWAJ.claim("2", "in every head of the identifiable encoder, T has the rank min(n, width)")
def rank_is_that_of_the_length(study: Study) -> Outcome:
    rank = _ranks(study)["rank"].sel(variant="identifiable").transpose("length", "layer", "head").values
    expected = np.minimum(LENGTHS, 64)
    least, most = rank.min((1, 2)), rank.max((1, 2))
    pairs = ", ".join(f"n={n}: {low:.0f}-{high:.0f}" for n, low, high in zip(LENGTHS, least, most, strict=True))
    return bool((least == expected).all() and (most == expected).all()), pairs


@BHARDWAJ.claim("2", "in the standard encoder it stops at width/heads")
def standard_rank_stops(study: Study) -> Outcome:
    rank = _ranks(study)["rank"].sel(variant="standard")
    return bool((rank <= 16).all()), f"at most {float(rank.max()):.0f} for up to {LENGTHS[-1]} tokens"


@BHARDWAJ.claim("2", "the layer's output leaves fewer directions of the attention undetermined (our reading of the claim)")
def layer_is_more_identifiable(study: Study) -> Outcome:
    """Heads are added before anything reads them, so that their widths do not add equations."""
    nullity = _ranks(study).layer_nullity.sel(length=LENGTHS[-1]).mean("layer")
    standard, identifiable = (float(nullity.sel(variant=variant)) for variant in COLORS)
    return (
        identifiable < standard,
        f"at {LENGTHS[-1]} tokens {standard:.0f} in the standard, {identifiable:.0f} in the identifiable",
    )


@BHARDWAJ.recipe(
    "3",
    "Rows whose largest weight is certified to be the largest",
    data="movies, movies train",
    caption=lambda study, *_: (
        f"As in Figure 2; {CERTIFIED_ROWS} rows of every head, any attention with the same head output allowed."
    ),
)
def draw_certified(study: Study) -> Axes:
    ax = axes_or_new(None, 6, 3.4)
    for variant, color in COLORS.items():
        certified = _ranks(study).certified.sel(variant=variant).mean(("layer", "head"))
        ax.plot(LENGTHS, 100 * certified, "o-", color=color, label=variant)
    ax.set(xlabel="tokens", ylabel="certified rows, %", ylim=(-3, 103))
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


@BHARDWAJ.claim(
    "3", "which token receives the most attention is determined up to the width of the model, and not in the standard one"
)
def interpretation_changes(study: Study) -> Outcome:
    between = _ranks(study).certified.sel(length=[48, 64]).mean(("length", "layer", "head"))
    standard, identifiable = (float(between.sel(variant=variant)) for variant in COLORS)
    evidence = f"at 48 and 64 tokens in {100 * standard:.0f} % of rows of the standard, {100 * identifiable:.0f} % of the other"
    return identifiable > 0.95 and standard < identifiable, evidence


def _conditioning(study: Study) -> xr.Dataset:
    def compute() -> xr.Dataset:
        names = ("condition", "smallest", "identifiable")
        rows, questions = [], read_corpus(study.data.files["TREC"], 4 * TEXTS[study.scale.name])
        for width in KEY_WIDTHS:
            model = _trained(study, "TREC", "identifiable", None if width == KEY_WIDTH else width)
            found = [attention_identifiability(model.trace(question.text), layer) for question in questions for layer in (1, 2)]
            joined = {name: np.concatenate([one[f"key_constrained_{name}"].values.ravel() for one in found]) for name in names}
            rows.append([np.nanmedian(joined["condition"]), np.median(joined["smallest"]), joined["identifiable"].mean()])
        arrays = {name: np.array(rows)[:, column] for column, name in enumerate(names)}
        settings = {"questions": len(questions)}
        return make_result("key_conditioning", arrays, {"key_width": list(KEY_WIDTHS)}, _source(study, "TREC"), settings)

    return study.stored("conditioning", compute)


@BHARDWAJ.recipe(
    "4",
    "How well a head's output determines its query, by the width of the keys",
    data="TREC, TREC train",
    caption=lambda study, *_: (
        "Encoders trained on TREC with keys of four widths; the condition of ∂o/∂q, median over rows and heads."
    ),
)
def draw_conditioning(study: Study) -> Axes:
    result = _conditioning(study)
    ax = axes_or_new(None, 5, 3.4)
    ax.plot(KEY_WIDTHS, result.condition, "o-", color=COLORS["identifiable"])
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(KEY_WIDTHS, [str(width) for width in KEY_WIDTHS])
    ax.set(xlabel="width of the keys", ylabel="median condition number")
    ax.grid(alpha=0.3)
    return ax


@BHARDWAJ.claim("4", "with narrower keys, attention that the keys can generate is determined better")
def narrow_keys_help(study: Study) -> Outcome:
    condition = _conditioning(study).condition.values
    evidence = ", ".join(f"{value:,.0f} for d_k = {width}" for width, value in zip(KEY_WIDTHS, condition, strict=True))
    return bool((np.diff(condition) > 0).all()), evidence
