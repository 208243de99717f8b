"""The data of the page's panels on one row or token: its certificate, and its attribution.

To add a panel: a function here that turns a result into plain data; a component in ui/src/panels that shows the data, placed
in ui/src/Explorer.tsx; and, if the data is computed on request, a task in explorer/requests.py.
"""

import base64
from typing import Any

import numpy as np
import xarray as xr

from identiformer.errors import InputError
from identiformer.models.interventions.patching import Change
from identiformer.page.packing import pack
from identiformer.page.summary import SHOWN_DIGITS
from identiformer.readings import summarize_attribution
from identiformer.readings.certificate import patched_run_sentence, row_sentence
from identiformer.typed_json import finite_or_null

ALTERNATIVES = {
    "null_direction": "along a null direction",
    "sparsest": "sparsest found",
    "farthest": "farthest found",
    "maximum_entropy": "maximum entropy",
    "rival": "with a different largest key",
}
"""How the page names the alternatives that `ambiguity` constructs."""
CONTRIBUTION_BITS = 12
"""Contributions are shown to 0.1%."""


def certificate_panel(result: xr.Dataset, patched_run: dict[str, Any] | None = None) -> dict[str, Any]:
    """Certified bounds and alternatives of one row, from `ambiguity`, and the patched run with one of them, if it was made."""
    row = result.isel(query=0)
    alternatives = {}
    for name in map(str, row["alternative"].values if "alternatives" in row else ()):
        total_variation = float(row.total_variation.sel(alternative=name))
        if not np.isnan(total_variation):
            weights = finite_or_null(row.alternatives.sel(alternative=name).values, 6)
            alternatives[name] = {"label": ALTERNATIVES[name], "row": weights, "total_variation": total_variation}
    return {
        **{name: int(row[name]) for name in ("layer", "head", "query")},
        **{name: finite_or_null(row[name].values, 6) for name in ("raw", "low", "high")},
        "sentence": row_sentence(result),
        "alternatives": alternatives,
        "patched_run": patched_run,
    }


def patched_run_panel(alternative: str, total_variation: float, output: Change) -> dict[str, Any]:
    """How much the model's output changed with an alternative, and in the control."""
    sentence = patched_run_sentence(total_variation, output)
    return {"alternative": alternative, "patched": output.patched, "control": output.control, "sentence": sentence}


def attribution_panel(result: xr.Dataset, corpus: xr.Dataset | None = None) -> dict[str, Any]:
    """Contributions from `token_attribution`, and the median self-contribution over a corpus, if there is one."""
    contributions = result.contribution.values
    description, content = pack(contributions, np.full(len(contributions), CONTRIBUTION_BITS))
    return {
        "layers": result["layer"].values.tolist(),
        "contributions": {**description, "start": 0},
        "content": base64.b64encode(content).decode(),
        "certain": result.main_contributor_certain.values.tolist(),
        "sentences": summarize_attribution(result).sentences(),
        "corpus": None if corpus is None else _corpus_medians(corpus, result),
    }


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
