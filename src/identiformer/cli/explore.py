"""Explore a text's attention in a browser."""

from typing import Annotated

import typer

from identiformer.cli import options
from identiformer.cli.application import app, errors, load_model, print_lines


@app.command(epilog="Example:  identiformer explore 'He said the pie was his.' --model smollm2")
def explore(
    text: options.Text = None,
    pair: options.Pair = None,
    model: options.Model = "minilm",
    port: Annotated[int, typer.Option(help="Port of the local server; a free one by default.")] = 0,
    run: options.Run = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    device: options.Device = "cpu",
    dtype: options.Dtype = "float32",
    allow_pickle: options.Pickle = False,
) -> None:
    """Explore the attention of any text in a browser; the page is served to this machine only."""
    loaded = load_model(model, device, dtype, allow_pickle)
    import identiformer as idf

    idf.explore(
        loaded, text, pair, port=port, browser=browser, device=device, dtype=dtype,
        corpus=None if run is None else idf.open_run(run)["token_attribution"],
        announce=lambda address: print_lines(errors, f"{address}  (Ctrl+C ends it)", soft_wrap=True),
    )  # fmt: skip
