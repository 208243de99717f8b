"""Serve the explorer for a model."""

import threading
import webbrowser
from collections.abc import Callable
from functools import partial

import xarray as xr

from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts
from identiformer.models import Model, load
from identiformer.models.loading.load import CARRIERS
from identiformer.page.attribution import check_corpus
from identiformer.texts import PASSAGE


def explore(
    model: Model | str = "minilm",
    text: str | None = None,
    pair: str | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    device: str = "cpu",
    dtype: str = "float32",
    corpus: xr.Dataset | None = None,
    told: Callable[[str], None] = print,
) -> None:
    """Serve a page on which any text's attention can be looked at, to this machine alone, until interrupted.

    text, pair: what is shown first; without it an embedded passage. port: any that is free. browser: whether to open the page.
    told: gets the address, which holds a secret. device, dtype: for models that are loaded later, from the page.
    corpus: `run["token_attribution"]` of this model, beside whose medians the page puts what a token keeps of itself.
    """
    first = load(model, device=device, dtype=dtype) if isinstance(model, str) else model
    if corpus is not None:
        check_corpus(corpus, first.revision)
    names = list(dict.fromkeys([first.name, *CARRIERS]))
    texts = Texts(partial(load, device=device, dtype=dtype), names, {first.name: first}, corpus)
    start = {"text": PASSAGE if text is None else text, "pair": pair, "model": first.name}
    server = LocalServer(texts, start, port)
    told(server.address)
    if browser:
        # It listens already, so a page that comes before it serves only waits.
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    server.run()
