"""The command line: parse, call one function, print."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from identiformer.errors import IdentiformerError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="What may a transformer's attention map be taken to mean?",
)
errors = Console(stderr=True)


@app.callback()
def _commands() -> None:
    """What may a transformer's attention map be taken to mean?"""


@app.command(
    epilog="Example:  identiformer inspect 'He said the pie was his.' --pair 'She did not agree.' --out report.html",
)
def inspect(
    text: Annotated[
        str | None, typer.Argument(help="The text to run through the model; without it, an embedded passage.")
    ] = None,
    pair: Annotated[str | None, typer.Option(help="A second text, read together with the first.")] = None,
    model: Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")] = "minilm",
    layer: Annotated[int | None, typer.Option(help="Look at this layer, counted from 1.")] = None,
    head: Annotated[int | None, typer.Option(help="Look at this head, counted from 0.")] = None,
    certify: Annotated[
        bool,
        typer.Option(help="Certify how far those heads could attend elsewhere with the same output, and run the model so."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report with heatmaps to this HTML file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    truncate: Annotated[bool, typer.Option(help="Cut a text that is longer than the model takes.")] = False,
    device: Annotated[str, typer.Option(help="Where to run the model.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="The precision to run it in.")] = "float32",
    allow_pickle: Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")] = False,
) -> None:
    """Say how much of a text's attention the model's output can see, and where raw attention misleads."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf
        from identiformer.measures import certify as put_to_the_test
        from identiformer.report import write_report
        from identiformer.texts import PASSAGE

        status.update(f"loading {model} …")
        loaded = idf.load(model, device=device, dtype=dtype, allow_pickle=allow_pickle)
        status.update("running the model …")
        trace = loaded.trace(PASSAGE if text is None else text, pair, truncate=truncate, raw_norms=True)
        status.update("measuring …")
        inspection = idf.inspect_text(trace, layer=layer, head=head)
    if certify:
        inspection = put_to_the_test(inspection, loaded, trace, progress=True)
    if out is not None:
        with errors.status("drawing the report …"):
            write_report(inspection, out)
    if as_json:
        print(json.dumps(inspection.as_json(), ensure_ascii=False, indent=2))
        return
    console = Console()
    say = partial(console.print, markup=False, highlight=False)
    say(*inspection.sentences(), sep="\n")
    console.print(_layer_table(inspection.layers))
    say(*(head.sentence() for head in inspection.misleading), sep="\n")
    for certificate in inspection.certificates:
        say("", *certificate.sentences(), sep="\n")
    if out is not None:
        say(f"report: {out}", soft_wrap=True)


def _layer_table(layers) -> Table:  # noqa: ANN001
    table = Table("layer", "heads with a null space", "nullity", "null mass", "correlation", title="means over heads")
    for row in layers:
        numbers = (f"{row.mean_nullity:.1f}", f"{row.mean_null_mass:.0%}", f"{row.mean_correlation:.2f}")
        table.add_row(str(row.layer), str(row.heads_with_null_space), *numbers)
    return table


@app.command(epilog="Example:  identiformer attribute 'He said the pie was his.' --token 3 --out attribution.html")
def attribute(
    text: Annotated[
        str | None, typer.Argument(help="The text to run through the model; without it, an embedded passage.")
    ] = None,
    pair: Annotated[str | None, typer.Option(help="A second text, read together with the first.")] = None,
    model: Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")] = "minilm",
    token: Annotated[int, typer.Option(help="Look at this token, counted from 0.")] = 0,
    exact: Annotated[bool, typer.Option(help="Take whole Jacobians instead of probes.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="Take more probes until shares, as distributions, err by less, such as 0.02.")
    ] = None,
    probes: Annotated[int, typer.Option(help="Random directions for each input token.")] = 16,
    norm: Annotated[str, typer.Option(help="Of a Jacobian: frobenius, spectral or summed.")] = "frobenius",
    input: Annotated[str, typer.Option(help="Input vectors before or after the LayerNorm of the embeddings.")] = "before",
    seed: Annotated[int, typer.Option(help="The same seed gives the same probes.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write a page (.html), or the picture of the token (.png, .svg, .pdf).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    truncate: Annotated[bool, typer.Option(help="Cut a text that is longer than the model takes.")] = False,
    device: Annotated[str, typer.Option(help="Where to run the model.")] = "cpu",
    allow_pickle: Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")] = False,
) -> None:
    """Say where each hidden vector came from: the share of every input token in it, layer by layer."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf
        from identiformer.measures import summarise_attribution
        from identiformer.measures.selection import chosen
        from identiformer.report import attribution_kind, write_attribution
        from identiformer.texts import PASSAGE

        if out is not None:
            attribution_kind(out)
        status.update(f"loading {model} …")
        loaded = idf.load(model, device=device, allow_pickle=allow_pickle)
        text = PASSAGE if text is None else text
        chosen([token], len(loaded.tokens(text, pair, truncate=truncate)), "token")
    result = idf.token_attribution(
        loaded, text, pair, probes=probes, exact=exact, tolerance=tolerance, norm=norm, input=input,
        seed=seed, truncate=truncate, progress=True,
    )  # fmt: skip
    summary = summarise_attribution(result, token)
    if out is not None:
        write_attribution(summary, out)
    if as_json:
        print(json.dumps(summary.as_json(), ensure_ascii=False, indent=2))
        return
    console = Console()
    say = partial(console.print, markup=False, highlight=False)
    say(*summary.sentences(), sep="\n")
    console.print(_mixing_table(summary))
    console.print(_token_table(summary))
    if out is not None:
        say(f"written: {out}", soft_wrap=True)


def _mixing_table(summary) -> Table:  # noqa: ANN001
    table = Table("layer", "self-contribution", "not own main contributor", "undecided", title="all tokens")
    for row in summary.layers:
        table.add_row(str(row.layer), f"{row.median_self_contribution:.1%}", f"{row.not_own_main:.0%}", f"{row.undecided:.0%}")
    return table


def _token_table(summary) -> Table:  # noqa: ANN001
    table = Table("layer", "self-contribution", "largest contributions", "first is certain")
    table.title = Text(f"the token {summary.token} at {summary.position}")
    for row in summary.of_token:
        main = ", ".join(f"{each.token} {each.position} ({each.share:.1%} ± {each.error:.1%})" for each in row.main)
        table.add_row(str(row.layer), f"{row.self_contribution:.1%}", Text(main), "yes" if row.certain else "no")
    return table


@app.command(epilog="Example:  identiformer run glue/MRPC --model minilm --measures effective_attention --out runs/mrpc")
def run(
    corpus: Annotated[
        str, typer.Argument(help="A GLUE folder, a TSV, CSV, JSONL or text file, - for standard input, or a dataset's name.")
    ],
    out: Annotated[Path, typer.Option(help="The folder of the run.")],
    model: Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")] = "minilm",
    measures: Annotated[
        str, typer.Option(help="Of effective_attention, attention_identifiability, token_attribution, ambiguity; by commas.")
    ] = "effective_attention,attention_identifiability",
    engine: Annotated[str, typer.Option(help="serial, or ray for several workers.")] = "serial",
    workers: Annotated[int, typer.Option(help="How many workers Ray starts.")] = 1,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; without it, Ray runs on this machine.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many examples.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Cut texts to so many tokens, and count those that were cut.")] = None,
    text_column: Annotated[str | None, typer.Option(help="The column, or key, of the text.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="The column, or key, of the second text of a pair.")] = None,
    format: Annotated[str | None, typer.Option(help="tsv, csv, jsonl, lines or paragraphs, if not as the name says.")] = None,
    shard_size: Annotated[int, typer.Option(help="Examples kept together in one file, a multiple of 32.")] = 32,
    part: Annotated[str, typer.Option(help="2/5 computes the second of five parts, to be merged later.")] = "1/1",
    seed: Annotated[int, typer.Option(help="The same seed gives the same probes and samples.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in the folder.")] = False,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Count examples that fail, and leave them out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print progress and the end as lines of JSON.")] = False,
    device: Annotated[str, typer.Option(help="Where to run the model.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="The precision to run it in.")] = "float32",
    allow_pickle: Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")] = False,
) -> None:
    """Measure a whole corpus; a run that was stopped goes on with --resume."""
    with errors.status("loading torch and transformers …"):
        import identiformer as idf
    done = idf.run(
        corpus, model, measures.split(","), out=out, engine=engine, workers=workers, address=address, limit=limit,
        max_length=max_length, text_column=text_column, pair_column=pair_column, format=format, shard_size=shard_size, part=part,
        seed=seed, resume=resume, keep_going=keep_going, device=device, dtype=dtype, allow_pickle=allow_pickle,
        progress="json" if as_json else "bar",
    )  # fmt: skip
    _print_run(done, as_json)


@app.command(epilog="Example:  identiformer merge runs/part1 runs/part2 --out runs/whole")
def merge(
    parts: Annotated[list[Path], typer.Argument(help="The folders of runs with --part 1/N to N/N.")],
    out: Annotated[Path, typer.Option(help="The folder of the whole run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print where it is as JSON.")] = False,
) -> None:
    """Put together the parts of a run that were computed on separate machines."""
    import identiformer as idf

    _print_run(idf.merge_runs(parts, out), as_json)


@app.command(epilog="Example:  identiformer results runs/mrpc")
def results(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Print what a run found."""
    import identiformer as idf

    done = idf.open_run(folder)
    if as_json:
        print(json.dumps(done.as_json(), ensure_ascii=False))
    else:
        print(done.summary, end="")


def _print_run(done, as_json: bool) -> None:  # noqa: ANN001
    print(
        json.dumps({"finished": str(done.path), "measures": list(done.results)})
        if as_json
        else f"{done.summary}\nrun: {done.path}"
    )


def main() -> NoReturn:
    """Run a command; an error that we know is one sentence and exit status 2."""
    try:
        app()
    except IdentiformerError as error:
        errors.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    sys.exit(0)
