"""Numbers about four papers on whether attention explains: what each is about, computed on pairs of MRPC.

Naim and Asher (2024): the distribution of least norm with the same output, its distance from raw attention, and the width of the
certified interval of the largest weight, which is 0 where only one distribution has the output. Wiegreffe and Pinter (2019): in
how many rows a head's output allows other attention, and in how many the head's own keys generate no other nearby. Cirrincione
(2026): free directions of the heads' weights, of each head alone and of the sum over heads. Contribution Weights (2026): how well
weights, effective attention and contributions predict what zeroing a value does.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import identiformer as idf
from identiformer.results.schema import first_middle_last
from studies.tables import Row, column, markdown
from studies.texts import read_texts

PAIRS = 4
ROWS = 2
ABOUT = {
    "tokens": "tokens",
    "total_variation": "total variation of efficient from raw attention",
    "interval": "width of the certified interval of the largest weight",
    "free_rows": "rows with other attention of the same output, %",
    "generated": "rows for which the keys generate no such attention nearby, %",
    "heads_nullity": "free directions per query, summed over heads",
    "layer_nullity": "free directions per query, given only the layer's output",
    "cirrincione": "n(H - 1)d_k",
    "raw": "correlation with value zeroing: raw attention",
    "effective": "correlation with value zeroing: effective attention",
    "contribution": "correlation with value zeroing: contribution",
}


def measure(name: str, data: Path, pairs: int) -> Iterator[Row]:
    """One row per text and layer: the first, the middle and the last."""
    model = idf.load(name)
    layers = first_middle_last(range(1, model.backbone.config.num_hidden_layers + 1))
    for number, example in enumerate(read_texts(model, data, pairs)):
        trace = model.trace(example.text, example.pair, truncate=True, form="weights")
        zeroed = idf.value_zeroing(model, example.text, example.pair, truncate=True)
        for layer in layers:
            rows = idf.attention_identifiability(trace, layer)
            variants = idf.attention_variants(trace, layer)
            record = trace.layer(layer).recorded()
            tokens, heads, width = record.weights.shape[-1], record.heads, record.values.shape[-1]
            agreement = zeroed.sel(layer=layer)
            yield {
                "text": number,
                "layer": layer,
                "tokens": tokens,
                "total_variation": float(variants.total_variation.sel(variant="minimum_norm")),
                "interval": float(idf.certified_share(trace, layers=layer, rows=ROWS).width.mean()),
                "free_rows": 100 * float((rows.simplex_nullity > 0).mean()),
                "generated": 100 * float(rows.key_constrained_identifiable.mean()),
                "heads_nullity": float(rows.heads_nullity.mean()),
                "layer_nullity": float(rows.layer_nullity.mean()),
                "cirrincione": tokens * (heads - 1) * width,
                **{kind: float(agreement[f"{kind}_agreement"].mean()) for kind in ("raw", "effective", "contribution")},
            }


def report(measured: Mapping[str, Sequence[Row]], _: Path) -> str:
    """Means over texts, by model and layer."""
    lines = []
    for model, rows in measured.items():
        for layer in sorted({int(row["layer"]) for row in rows}):
            some = [row for row in rows if int(row["layer"]) == layer]
            lines.append((model, str(layer), *(f"{np.mean(column(some, name)):.3g}" for name in ABOUT)))
    return markdown(("model", "layer", *ABOUT.values()), lines)
