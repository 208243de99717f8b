"""Serve the explorer for a model."""

import os
import threading
import webbrowser
from collections.abc import Callable
from functools import partial

import xarray as xr

from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts
from identiformer.explorer.views import open_view
from identiformer.models import Model, load, open_picture
from identiformer.models.generation.generate import require_language_model
from identiformer.models.generation.settings import Generation
from identiformer.models.loading.named import NAMED
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
    dtype: str = "auto",
    corpus: xr.Dataset | None = None,
    image: str | os.PathLike[str] | None = None,
    generate: bool = False,
    chat: bool = False,
    max_new_tokens: int = 40,
    view: str | os.PathLike[str] | None = None,
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
    image : path, optional
        An image file, for a vision model.
    generate : bool
        Let a language model answer each text, and show the attention with which it wrote every token.
    chat : bool
        Put the text into the model's chat template before it is answered.
    max_new_tokens : int
        The largest number of tokens to write.
    view : path, optional
        A view that the page saved: what was selected is restored. Pass its text and model too.
    announce : callable
        Called with the address of the page, which contains a secret.

    Examples
    --------
    >>> import identiformer as idf
    >>> idf.explore("minilm", "He said the pie was his.")  # doctest: +SKIP
    http://127.0.0.1:43211/B4yP…/
    """
    answers = Generation(chat, max_new_tokens)  # checked before a model is loaded
    first = load(model, device=device, dtype=dtype) if isinstance(model, str) else model
    if generate:
        require_language_model(first)
    if corpus is not None:
        check_corpus(corpus, first.revision)
    picture = None if image is None else open_picture(first, image)
    names = [first.name] if picture is not None else list(dict.fromkeys([first.name, *NAMED]))
    texts = Texts(
        partial(load, device=device, dtype=dtype, memory=first.memory),
        names,
        {first.name: first},
        corpus,
        picture,
        answers if generate else None,
    )
    shown = "" if picture is not None else PASSAGE if text is None else text
    saved = None if view is None else dict(open_view(view).view)
    about = {"text": shown, "pair": pair, "model": first.name, "view": saved, "image": None if image is None else str(image)}
    server = LocalServer(texts, about, port)
    announce(server.address)
    if browser:
        # The socket accepts connections already, so the browser waits until the server runs.
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    server.run()
