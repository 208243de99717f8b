"""Attribute the hidden vectors of one text to its input tokens."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from identiformer.cli import options
from identiformer.cli.application import app, load_model, print_json, print_lines, read_or_generate


@app.command(epilog="Example:  identiformer attribute 'He said the pie was his.' --token 3 --out attribution.html")
def attribute(
    text: options.Text = None,
    pair: options.Pair = None,
    chat: options.Chat = False,
    system: options.System = None,
    generate: options.Generate = None,
    model: options.Model = "minilm",
    token: Annotated[int, typer.Option(help="Show this token, counted from 0.")] = 0,
    exact: Annotated[bool, typer.Option(help="Compute whole Jacobians instead of estimating their norms.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="Add random directions until every expected error is below this, such as 0.02.")
    ] = None,
    directions: Annotated[int, typer.Option(help="Number of random directions per input token.")] = 16,
    norm: Annotated[str, typer.Option(help="Norm of the Jacobian: frobenius, spectral or summed.")] = "frobenius",
    input_site: Annotated[str, typer.Option("--input", help="Input vectors before or after the embedding LayerNorm.")] = "before",
    seed: Annotated[int, typer.Option(help="Seed of the random directions.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write a report (.html) or a figure of the token (.png, .svg, .pdf).")] = None,
    run: options.Run = None,
    as_json: options.Json = False,
    truncate: options.Truncate = False,
    device: options.Device = "cpu",
    device_map: options.DeviceMap = None,
    revision: options.Revision = None,
    allow_pickle: options.Pickle = False,
) -> None:
    """Show where each hidden vector came from: the contribution of every input token, layer by layer."""
    if out is not None:  # checked before anything takes long
        from identiformer.report import attribution_format, report_target

        attribution_format(out)
        report_target(out)
    loaded = load_model(model, device, allow_pickle=allow_pickle, device_map=device_map, revision=revision)
    import identiformer as idf
    from identiformer.measures.indices import select_indices
    from identiformer.page.panels import check_corpus
    from identiformer.readings import summarize_attribution
    from identiformer.report import attribution_format, write_attribution
    from identiformer.texts import PASSAGE

    corpus = None if run is None else idf.open_run(run)["token_attribution"]
    if corpus is not None:
        check_corpus(corpus, loaded.revision)
    source = read_or_generate(loaded, PASSAGE if text is None else text, pair, chat, system, generate)
    select_indices(token, len(loaded.tokens(source, pair, truncate=truncate)), "token")
    result = idf.token_attribution(
        loaded, source, pair, directions=directions, exact=exact, tolerance=tolerance, norm=norm, input_site=input_site,
        seed=seed, truncate=truncate, progress=True,
    )  # fmt: skip
    summary = summarize_attribution(result, token)
    if out is not None:
        is_page = attribution_format(out) == "html"
        trace = loaded.trace(source, pair, truncate=truncate, raw_norms=True) if is_page else None
        write_attribution(summary, out, trace, corpus)
    if as_json:
        print_json(summary.as_json())
        return
    console = Console()
    print_lines(console, *summary.sentences())
    console.print(_layer_table(summary.layers))
    console.print(_token_table(summary))
    if out is not None:
        print_lines(console, f"written: {out}", soft_wrap=True)


def _layer_table(layers) -> Table:  # noqa: ANN001
    table = Table("layer", "self-contribution", "not own main contributor", "undecided", title="all tokens")
    for row in layers:
        table.add_row(str(row.layer), f"{row.median_self_contribution:.1%}", f"{row.not_own_main:.0%}", f"{row.undecided:.0%}")
    return table


def _token_table(summary) -> Table:  # noqa: ANN001
    table = Table("layer", "self-contribution", "largest contributions", "first is certain")
    table.title = Text(f"the token {summary.token} at {summary.position}")
    for row in summary.of_token:
        main = ", ".join(f"{source.token} {source.position} ({source.share:.1%} ± {source.error:.1%})" for source in row.main)
        table.add_row(str(row.layer), f"{row.self_contribution:.1%}", Text(main), "yes" if row.certain else "no")
    return table
