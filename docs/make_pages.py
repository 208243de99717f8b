"""Rewrite the pages and pictures that are made from runs: python -m docs.make_pages"""

from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

import identiformer as idf
from identiformer.readings.effective import heads_to_describe
from identiformer.texts import PASSAGE

HERE = Path(__file__).parent
LAYER = 4
TEXT = PASSAGE[: PASSAGE.index(" They had asked")]
"""The first half of the passage, of which all heads are certified within seconds."""
SENTENCE, TARGET = "The baker, who owned the only vessel with an engine, began to carry passengers between loaves.", 13

COLUMNS = {
    "sum_error": ("mean error of the row sum", ".2f"),
    "negative_share": ("share of negative weight", ".1%"),
    "squared_norm": ("mean ‖a‖²", ".4f"),
    "entropy": ("mean entropy (nats)", ".2f"),
    "total_variation": ("total variation from raw", ".3f"),
    "correlation_with_raw": ("correlation with raw", ".2f"),
    "correlation_with_effective": ("correlation with effective", ".2f"),
    "output_error": ("largest relative error of the output", ".3f"),
}

VARIANTS_PAGE = """# How the variants of effective attention differ

Effective attention is not a probability distribution. The paper asks (§7) how it would change if it were one. The table compares
such variants on `{model}`, layer {layer}, all {heads} heads, every row of the built-in passage of {tokens} tokens. `make docs`
generates this page; `idf.attention_variants` computes the table for any layer.

{table}

- **raw** is the attention that the model computed. **effective** is the shortest row with the same output. It is not a
  distribution: its sum is free and weights can be negative.
- **soft** replaces the rank threshold with a gradual one (ε = 0.01, in the metric of the model's output). It nearly preserves
  the output, and it is continuous where the rank changes.
- **sum preserving** is the shortest row with the same output *and* the same sum. It ignores the value bias.
- **minimum norm** is the shortest *distribution* with the same output, and **maximum entropy** the most uniform one. The sum
  and the signs constrain both, even where the output does not. They therefore stay close to raw attention and far from effective
  attention: weight on a token whose value is nearly zero vanishes from effective attention, but cannot vanish from a
  distribution.
- **efficient attention** (Naim and Asher 2024) is described as a distribution with the same output and without superfluous
  weight. We interpret it as minimum norm. It is a distribution and it is unique, because a norm has one minimum on a convex set.
  The set itself is larger: [certified intervals](ambiguity.md) show by how much.
{undecided}"""


def variants_page(model: idf.Model) -> str:
    trace = model.trace(PASSAGE)
    result = idf.attention_variants(trace, LAYER)
    header = "| variant | " + " | ".join(title for title, _ in COLUMNS.values()) + " |"
    rows = [
        f"| {name.replace('_', ' ')} | "
        + " | ".join("—" if value != value else format(value, form) for value, form in _cells(result.sel(variant=name)))
        + " |"
        for name in result.variant.values
    ]
    table = "\n".join([header, "|---" * (len(COLUMNS) + 1) + "|", *rows])
    missed = int(result.undecided_rows.sum())
    return VARIANTS_PAGE.format(
        model=model.name,
        layer=LAYER,
        heads=trace.layer(LAYER).heads,
        tokens=len(trace.tokens),
        table=table,
        undecided=f"- Undecided and left out: {missed} rows.\n" if missed else "",
    )


def _cells(one) -> list[tuple[float, str]]:
    return [(float(one[name]), form) for name, (_, form) in COLUMNS.items()]


def glance(result: xr.Dataset) -> Figure:
    """The README's first picture: one map, and what may be read from it."""
    figure = Figure(figsize=(12, 6.2), layout="constrained")
    layer, head = (int(result[axis][0]) for axis in ("layer", "head"))
    idf.figures.draw_readable_map(result, layer, head, list(figure.subplots(1, 2, sharey=True)))
    return figure


def attention_maps(model: idf.Model) -> Figure:
    result = idf.effective_attention(model.trace(PASSAGE))
    figure = Figure(figsize=(13, 5.2), layout="constrained")
    idf.figures.draw_attention_maps(result, *heads_to_describe(result)[0], list(figure.subplots(1, 3, sharey=True)))
    return figure


def intervals(model: idf.Model) -> Figure:
    certificate = idf.certify_head(model, model.trace(PASSAGE), LAYER, 3)
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    (query,) = certificate["query"].values.tolist()
    idf.figures.draw_intervals(certificate, query, certificate.patched_alternative.item(), figure.subplots())
    return figure


def attribution(model: idf.Model) -> Figure:
    found = idf.token_attribution(model, SENTENCE)
    figure = idf.figures.draw_token_attribution(found, TARGET).figure
    assert isinstance(figure, Figure)
    return figure


if __name__ == "__main__":
    minilm = idf.load("minilm")
    (HERE / "variants.md").write_text(variants_page(minilm), encoding="utf-8")
    glance(idf.read(minilm, TEXT).shown).savefig(HERE / "images" / "glance.png", dpi=130)
    attention_maps(minilm).savefig(HERE / "images" / "attention_maps.png", dpi=110)
    intervals(minilm).savefig(HERE / "images" / "intervals.png", dpi=110)
    attribution(minilm).savefig(HERE / "images" / "attribution.png", dpi=110)
