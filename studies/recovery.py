"""Exact recovery of prompts from hidden states, next to what a linear probe reads from the same states.

The first sentences of pairs of MRPC, cut to twenty tokens, at the first, the middle and the last layer. `probe` is the rate at
which a linear probe finds the token of a state among those of its sentence, on sentences held out from another eighty (§4).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

import identiformer as idf
from identiformer.results.schema import first_middle_last
from studies.tables import Row, column, markdown

TOKENS = 20
PROBE_EXAMPLES = 80
PAIRS = 20


def measure(name: str, data: Path, prompts: int) -> Iterator[Row]:
    """One row per prompt and layer."""
    model = idf.load(name)
    layers = first_middle_last(range(1, model.backbone.config.num_hidden_layers + 1))
    examples = idf.read_corpus(data / "MRPC" / "dev.tsv", prompts + PROBE_EXAMPLES)
    trained = [example.text for example in examples[prompts:]]
    probes = idf.token_identifiability(model, trained, methods=["linear l2"], resplits=1, layers=layers)
    for number, example in enumerate(examples[:prompts]):
        ids = model.tokenizer(example.text)["input_ids"][:TOKENS]
        with torch.no_grad():
            states = model.network(torch.tensor([ids]), output_hidden_states=True).hidden_states
        for layer in layers:
            recovered = idf.recover_prompt(model, states[layer][0], layer)
            yield {
                "prompt": number,
                "layer": layer,
                "tokens": len(ids),
                "exact": int(recovered.ids.tolist() == ids),
                "median_tried": float(np.median(recovered.tried)),
                "most_tried": int(recovered.tried.max()),
                "least_margin": float(recovered.margin.min()),
                "median_margin": float(np.median(recovered.margin)),
                "tried": " ".join(map(str, recovered.tried)),
                "probe": float(probes.rate.sel(layer=layer)[0]),
            }


def report(measured: Mapping[str, Sequence[Row]], _: Path) -> str:
    """The table of all models."""
    header = (
        "model", "layer", "prompts", "recovered exactly", "linear probe", "candidates per token: median", "mean", "most",
        "least margin", "median margin",
    )  # fmt: skip
    lines = []
    for model, rows in measured.items():
        for layer in sorted({int(row["layer"]) for row in rows}):
            some = [row for row in rows if int(row["layer"]) == layer]
            tried = np.array([int(float(count)) for row in some for count in str(row["tried"]).split()])
            lines.append(
                (
                    model, str(layer), str(len(some)), f"{100 * column(some, 'exact').mean():.0f}%",
                    f"{100 * column(some, 'probe').mean():.0f}%", f"{np.median(tried):.0f}", f"{tried.mean():.0f}",
                    f"{tried.max()}", f"{column(some, 'least_margin').min():.0f}",
                    f"{np.median(column(some, 'median_margin')):.0f}",
                )
            )  # fmt: skip
    return markdown(header, lines)
