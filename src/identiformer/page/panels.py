"""The data of the page's panels: the certificate of a row, the attribution of a token, an answer, an image.

To add a panel: a function here that turns a result into plain data; a component in ui/src/panels that shows the data, placed
in ui/src/Explorer.tsx; and, if the data is computed on request, a task in explorer/requests.py.
"""

import base64
import io
from typing import Any

import numpy as np
import xarray as xr
from PIL import Image

from identiformer.errors import InputError
from identiformer.models import Answer
from identiformer.models.interventions.patching import Change
from identiformer.models.pictures import Picture, patch_grid
from identiformer.page.packing import pack
from identiformer.page.reading import SHOWN_DIGITS
from identiformer.readings.attribution import attribution_sentences, token_sentences
from identiformer.readings.sentences.certificate import row_sentences
from identiformer.readings.sentences.patched_run import (
    moved_weight_sentences,
    patched_run_conclusion,
    patched_run_sentence,
    prediction_sentences,
)
from identiformer.tokens import Tokens
from identiformer.typed_json import finite_or_null

ALTERNATIVES = {
    "null_direction": "along a null direction",
    "sparsest": "sparsest found",
    "farthest": "farthest found",
    "maximum_entropy": "maximum entropy",
    "rival": "with a different largest key",
}
"""How the page names the alternatives that `ambiguity` constructs."""
SMALLEST_CHANGE = 0.005
"""An alternative that moves less of a row's weight is the row itself, up to rounding."""
MAP_BITS = 12
"""Contributions, and the largest scores of a map, are shown to 0.1%."""


def certificate_panel(result: xr.Dataset, patched_run: dict[str, Any] | None = None) -> dict[str, Any]:
    """Certified bounds and alternatives of one row, from `ambiguity`, and the patched run with one of them, if it was made."""
    row = result.isel(query=0)
    alternatives = {}
    for name in map(str, row["alternative"].values if "alternatives" in row else ()):
        total_variation = float(row.total_variation.sel(alternative=name))
        if total_variation >= SMALLEST_CHANGE:  # which NaN is not
            weights = finite_or_null(row.alternatives.sel(alternative=name).values, 6)
            alternatives[name] = {"label": ALTERNATIVES[name], "row": weights, "total_variation": total_variation}
    return {
        **{name: int(row[name]) for name in ("layer", "head", "query")},
        **{name: finite_or_null(row[name].values, 6) for name in ("raw", "low", "high", "contribution")},
        "sentences": row_sentences(result),
        "alternatives": alternatives,
        "patched_run": patched_run,
    }


def patched_run_panel(alternative: str, total_variation: float, output: Change | xr.Dataset) -> dict[str, Any]:
    """How much the model's output changed with an alternative, and in the control."""
    sentences = [patched_run_sentence(total_variation, output), patched_run_conclusion(output)]
    changes = {name: float(getattr(output, name)) for name in ("patched", "control")}
    return {"alternative": alternative, **changes, "sentences": sentences}


def alternative_to_run(result: xr.Dataset) -> str | None:
    """The alternative of a row that says most: one with another largest key, or the farthest; None if there is none."""
    distances = result.isel(query=0).total_variation
    names = [str(name) for name in distances["alternative"].values if float(distances.sel(alternative=name)) >= SMALLEST_CHANGE]
    if "rival" in names:
        return "rival"
    return max(names, key=lambda name: float(distances.sel(alternative=name)), default=None)


def moved_weight_panel(moved: xr.Dataset) -> dict[str, Any]:
    """What happened when one query attended to another key, from `move_weight`."""
    return {
        "alternative": bool(moved.alternative),
        **{name: float(moved[name]) for name in ("head_change", "tolerance", "patched", "control")},
        "sentences": moved_weight_sentences(moved),
        "predictions": [
            {
                "position": position,
                **{when: _most_probable(moved.sel(position=position), when) for when in ("before", "after")},
                "sentence": sentence,
            }
            for position, sentence in zip(moved["position"].values.tolist(), prediction_sentences(moved), strict=True)
        ],
    }


def _most_probable(prediction: xr.Dataset, when: str) -> list[list[Any]]:
    """Tokens and their probabilities."""
    columns = (prediction[f"{name}_{when}"].values.tolist() for name in ("token", "probability"))
    return [list(pair) for pair in zip(*columns, strict=True)]


def answer_panel(answer: Answer, prompt: str, sources: dict[str, Any] | None = None) -> dict[str, Any]:
    """The steps of an answer: each token with its probability and the position at which the model output it.

    `prompt` is the text that the user typed, and `sources` the `answer_as_json` of the answer, if it was computed.
    """
    steps = [
        {
            "token": answer.tokens.texts[at + 1],
            "position": at + 1,
            "predicted_at": at,
            "probability": round(probability, SHOWN_DIGITS),
        }
        for at, probability in zip(answer.positions, answer.probabilities, strict=True)
    ]
    return {
        "prompt": prompt,
        "start": answer.start,
        "spans": list(answer.tokens.span_names or ()),
        "interrupted": answer.interrupted,
        "steps": steps,
        "sources": sources,
    }


def image_panel(picture: Picture, tokens: Tokens) -> dict[str, Any] | None:
    """The picture that a vision model reads, and where its patches are; None if positions are not patches."""
    grid = patch_grid(tokens)
    if grid is None:
        return None
    rows, columns, first = grid
    content = io.BytesIO()
    Image.fromarray(picture.colors).save(content, "PNG")
    address = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    return {"picture": address, "rows": rows, "columns": columns, "first": first}


def attribution_panel(result: xr.Dataset, corpus: xr.Dataset | None = None) -> dict[str, Any]:
    """Contributions from `token_attribution` to all tokens or to one, and the median self-contribution over a corpus, if any."""
    targets = result["target"].values.tolist()
    one = len(targets) == 1 < result.sizes["source"]
    return {
        "layers": result["layer"].values.tolist(),
        "targets": targets,
        "contributions": _packed(result.contribution.values),
        "certain": result.main_contributor_certain.values.tolist(),
        "sentences": token_sentences(result, targets[0]) if one else attribution_sentences(result),
        "corpus": None if corpus is None else _corpus_medians(corpus, result),
    }


def map_panel(result: xr.Dataset, name: str) -> dict[str, Any]:
    """One of the maps of a text, from `maps`, and the mean of raw attention over heads, for every layer."""
    return {which: _packed(np.nan_to_num(result.score.sel(map=which).values)) for which in ("raw", name)}


def _packed(maps: np.ndarray) -> dict[str, Any]:
    """Maps (layer query key) as the page unpacks them."""
    description, content = pack(maps, np.full(len(maps), MAP_BITS))
    return {**description, "start": 0, "content": base64.b64encode(content).decode()}


def _corpus_medians(corpus: xr.Dataset, result: xr.Dataset) -> dict[str, Any]:
    medians = corpus.self_contribution_quantiles.sel(quantile=0.5, layer=result["layer"])
    return {"name": corpus.attrs["corpus"], "medians": finite_or_null(medians.values, SHOWN_DIGITS)}


def check_corpus(corpus: xr.Dataset, revision: str) -> None:
    """Raise unless the Dataset is `token_attribution` over a corpus, of the model with this revision."""
    if "self_contribution_quantiles" not in corpus or "corpus" not in corpus.attrs:
        raise InputError("expected token_attribution over a corpus, got another Dataset; use run['token_attribution'].")
    if corpus.attrs["revision"] != revision:
        raise InputError(
            f"expected a run of this model ({revision}), got one of {corpus.attrs['model']} ({corpus.attrs['revision']}); "
            "run this model over a corpus."
        )
