"""Look at a text's attention in a browser."""

from functools import partial
from typing import Annotated

import typer

from identiformer.cli.shared import (
    DeviceOption,
    DtypeOption,
    ModelOption,
    PairOption,
    PickleOption,
    RunOption,
    TextArgument,
    app,
    errors,
    load_model,
)


@app.command(epilog="Example:  identiformer explore 'He said the pie was his.' --model smollm2")
def explore(
    text: TextArgument = None,
    pair: PairOption = None,
    model: ModelOption = "minilm",
    port: Annotated[int, typer.Option(help="Port of the local server; a free one by default.")] = 0,
    run: RunOption = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Explore the attention of any text in a browser; the page is served to this machine only."""
    loaded = load_model(model, device, dtype, allow_pickle)
    import identiformer as idf

    say = partial(errors.print, markup=False, highlight=False, soft_wrap=True)
    idf.explore(
        loaded,
        text,
        pair,
        port=port,
        browser=browser,
        device=device,
        dtype=dtype,
        corpus=None if run is None else idf.open_run(run)["token_attribution"],
        told=lambda address: say(f"{address}  (Ctrl+C ends it)"),
    )
