"""Explore a text's attention in a browser."""

from pathlib import Path
from typing import Annotated

import typer

import identiformer as idf
from identiformer.cli import options
from identiformer.cli.application import app, errors, load_model, print_lines
from identiformer.errors import InputError
from identiformer.explorer.guard import listen
from identiformer.models.generation.settings import Generation


@app.command(epilog="Example:  identiformer explore 'He said the pie was his.' --model smollm2")
def explore(
    text: options.Text = None,
    pair: options.Pair = None,
    image: options.Image = None,
    model: Annotated[
        str | None, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id; minilm by default.")
    ] = None,
    generate: Annotated[
        bool, typer.Option("--generate", help="Let a language model answer the text, and step through what it writes.")
    ] = False,
    chat: Annotated[bool, typer.Option("--chat", help="With --generate: put the text into the model's chat template.")] = False,
    max_new_tokens: Annotated[int, typer.Option(help="With --generate: the largest number of tokens to write.")] = 40,
    view: Annotated[Path | None, typer.Option(help="Open a view that the page saved (Export, Save view).")] = None,
    port: Annotated[int, typer.Option(help="Port of the local server; a free one by default.")] = 0,
    run: options.Run = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    device: options.Device = "cpu",
    device_map: options.DeviceMap = None,
    dtype: options.Dtype = "auto",
    revision: options.Revision = None,
    memory: options.Memory = "2GiB",
    allow_pickle: options.Pickle = False,
) -> None:
    """Explore the attention of any text in a browser, served by this machine to this machine only."""
    Generation(max_new_tokens=max_new_tokens)
    listen(port).close()
    options.check_one_input(image, text, pair)
    if view is not None:
        from identiformer.explorer.views import open_view

        if text is not None or pair is not None:
            raise InputError("expected a text or --view, which has its own, got both; leave one out.")
        saved = open_view(view)
        if saved.text is None and image is None:
            raise InputError(f"expected the image that {view} is a view of; add --image FILE.")
        text, pair, model, generate = saved.text, saved.pair, model or saved.model, generate or saved.generated
    if chat and not generate:
        raise InputError("expected --generate together with --chat, got --chat alone; add --generate.")
    if generate and pair is not None:
        raise InputError("expected one prompt, got a pair of texts; leave --pair or --generate out.")
    corpus = None if run is None else idf.open_run(run)["token_attribution"]
    name = model or ("smollm2" if generate else "minilm")
    loaded = load_model(
        name, device, dtype, allow_pickle, device_map, revision, memory, writes=generate, reads_images=image is not None
    )
    idf.explore(
        loaded, text, pair, port=port, browser=browser, device=device, dtype=dtype, image=image, generate=generate, chat=chat,
        max_new_tokens=max_new_tokens, view=view,
        corpus=corpus,
        announce=lambda address: print_lines(errors, f"{address}  (Ctrl+C ends it)", soft_wrap=True),
    )  # fmt: skip
