"""Where hidden vectors came from, as plain data for a page, beside what a corpus has shown of the same model."""

import base64
from typing import Any

import numpy as np
import xarray as xr

from identiformer.errors import InputError
from identiformer.page.packing import pack

BITS = 12


def origins_of(result: xr.Dataset, corpus: xr.Dataset | None = None) -> dict[str, Any]:
    """The shares of `token_attribution`, and with its corpus measure the median that tokens keep of themselves."""
    shares = result.contribution.values
    description, content = pack(shares, np.full(len(shares), BITS))
    return {
        "layers": result["layer"].values.tolist(),
        "shares": {**description, "start": 0},
        "content": base64.b64encode(content).decode(),
        "certain": result.main_contributor_certain.values.tolist(),
        "error": float(result.distribution_error.max()),
        "corpus": None if corpus is None else _medians(corpus, result),
    }


def _medians(corpus: xr.Dataset, result: xr.Dataset) -> dict[str, Any]:
    medians = corpus.self_contribution_quantiles.sel(quantile=0.5, layer=result["layer"])
    return {"name": corpus.attrs["corpus"], "medians": [round(float(value), 4) for value in medians.values]}


def check_corpus(corpus: xr.Dataset, revision: str) -> None:
    """Refuse what is not `token_attribution` over a corpus, of this very model."""
    if "self_contribution_quantiles" not in corpus or "corpus" not in corpus.attrs:
        raise InputError("expected the token_attribution of a run over a corpus; take run['token_attribution'].")
    if corpus.attrs["revision"] != revision:
        raise InputError(
            f"expected a run of this model ({revision}), got one of {corpus.attrs['model']} ({corpus.attrs['revision']}); "
            "run this model over a corpus."
        )
