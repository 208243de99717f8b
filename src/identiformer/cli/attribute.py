"""Attribute the hidden vectors of one text to its input tokens."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import identiformer as idf
from identiformer.cli import options
from identiformer.cli.application import app, load_model, print_json, print_lines, read_or_generate
from identiformer.cli.blocks import print_blocks
from identiformer.names import INPUT_SITES, NORMS
from identiformer.options import check_accuracy


@app.command(epilog="Example:  identiformer attribute 'He said the pie was his.' --token 3 --out attribution.html")
def attribute(
    text: options.Text = None,
    pair: options.Pair = None,
    chat: options.Chat = False,
    system: options.System = None,
    generate: options.Generate = None,
    model: options.Model = "minilm",
    token: Annotated[int, typer.Option(help="Show this token, counted from 0.", min=0)] = 0,
    exact: Annotated[bool, typer.Option(help="Compute whole Jacobians instead of estimating their norms.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="Add random directions until every expected error is below this, such as 0.02.")
    ] = None,
    directions: Annotated[int, typer.Option(help="Number of random directions per input token.")] = 16,
    norm: Annotated[
        str, typer.Option(help=f"Norm of the Jacobian: {', '.join(NORMS)}.", callback=options.one_of("a norm", NORMS))
    ] = "frobenius",
    input_site: Annotated[
        str,
        typer.Option(
            "--input",
            help="Input vectors before or after the embedding LayerNorm.",
            callback=options.one_of("an input site", INPUT_SITES),
        ),
    ] = "before",
    seed: Annotated[int, typer.Option(help="Seed of the random directions.", callback=options.valid_seed)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write a report (.html) or a figure of the token (.png, .svg, .pdf).")] = None,
    run: options.Run = None,
    as_json: options.Json = False,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    device_map: options.DeviceMap = None,
    revision: options.Revision = None,
    memory: options.Memory = "2GiB",
    allow_pickle: options.Pickle = False,
) -> None:
    """Show where each hidden vector came from: the contribution of every input token, layer by layer."""
    if out is not None:  # checked before anything takes long
        from identiformer.report import attribution_format, report_target

        attribution_format(out)
        report_target(out)
    check_accuracy(directions, exact, tolerance)
    generation = options.check_answer(chat, system, generate, pair)
    corpus = None if run is None else idf.open_run(run)["token_attribution"]
    loaded = load_model(model, device, "auto", allow_pickle, device_map, revision, memory, writes=generation is not None)
    from identiformer.measures.indices import select_indices
    from identiformer.page.panels import check_corpus
    from identiformer.readings import attribution_as_json, attribution_blocks
    from identiformer.report import attribution_format, write_attribution
    from identiformer.texts import PASSAGE

    if corpus is not None:
        check_corpus(corpus, loaded.revision)
    source = read_or_generate(loaded, PASSAGE if text is None else text, generation)
    select_indices(token, len(loaded.tokens(source, pair, truncate=truncate)), "token")
    result = idf.token_attribution(
        loaded, source, pair, directions=directions, exact=exact, tolerance=tolerance, norm=norm, input_site=input_site,
        seed=seed, truncate=truncate, progress=True,
    )  # fmt: skip
    if out is not None:
        is_page = attribution_format(out) == "html"
        trace = loaded.trace(source, pair, truncate=truncate, raw_norms=True) if is_page else None
        write_attribution(result, out, token, trace, corpus)
    if as_json:
        print_json(attribution_as_json(result, token))
        return
    console = Console()
    print_blocks(console, attribution_blocks(result, token))
    if out is not None:
        print_lines(console, f"written: {out}", soft_wrap=True)
