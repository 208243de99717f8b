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
    port: Annotated[int, typer.Option(help="Of the local server; without it, any that is free.")] = 0,
    run: RunOption = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")] = True,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Serve a page, to this machine alone, on which any text's attention can be looked at."""
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
