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
from identiformer.page.panels import check_corpus
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
    announce: Callable[[str], None] = print,
) -> None:
    """Serve a page that shows the attention of any text, to this machine only, until interrupted.

    Parameters
    ----------
    model : Model or str
        The model that is selected first, or the name of one to load.
    text, pair : str, optional
        The text, or pair of texts, that is shown first. By default, an embedded passage.
    port : int
        Port of the server; 0 for any free one.
    browser : bool
        Whether to open the page in a browser.
    device, dtype : str
        For models that are loaded by name.
    corpus : Dataset, optional
        `run["token_attribution"]` of this model; the page then shows its medians next to the self-contributions of a text.
    announce : callable
        Called with the address of the page, which contains a secret.

    Examples
    --------
    >>> import identiformer as idf
    >>> idf.explore("minilm", "He said the pie was his.")  # doctest: +SKIP
    http://127.0.0.1:43211/B4yP…/
    """
    first = load(model, device=device, dtype=dtype) if isinstance(model, str) else model
    if corpus is not None:
        check_corpus(corpus, first.revision)
    names = list(dict.fromkeys([first.name, *CARRIERS]))
    texts = Texts(partial(load, device=device, dtype=dtype), names, {first.name: first}, corpus)
    server = LocalServer(texts, {"text": PASSAGE if text is None else text, "pair": pair, "model": first.name}, port)
    announce(server.address)
    if browser:
        # The socket accepts connections already, so the browser waits until the server runs.
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    server.run()
