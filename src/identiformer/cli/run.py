"""Run measures over a corpus, merge parts of a run, and print its results."""

import json
from pathlib import Path
from typing import Annotated

import typer

from identiformer.cli.shared import (
    CorpusArgument,
    DeviceOption,
    DtypeOption,
    LimitOption,
    MaxLengthOption,
    ModelOption,
    PickleOption,
    app,
    errors,
    print_json,
)


@app.command(epilog="Example:  identiformer run glue/MRPC --model minilm --measures effective_attention --out runs/mrpc")
def run(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Option(help="The folder of the run.")],
    model: ModelOption = "minilm",
    measures: Annotated[
        str,
        typer.Option(
            help="Of effective_attention, attention_identifiability, token_attribution, self_contribution_by_tag, ambiguity; "
            "by commas."
        ),
    ] = "effective_attention,attention_identifiability",
    engine: Annotated[str, typer.Option(help="serial, or ray for several workers.")] = "serial",
    workers: Annotated[int, typer.Option(help="How many workers Ray starts.")] = 1,
    address: Annotated[str | None, typer.Option(help="HOST:PORT of a Ray cluster; without it, Ray runs on this machine.")] = None,
    limit: LimitOption = None,
    max_length: MaxLengthOption = None,
    text_column: Annotated[str | None, typer.Option(help="The column, or key, of the text.")] = None,
    pair_column: Annotated[str | None, typer.Option(help="The column, or key, of the second text of a pair.")] = None,
    format: Annotated[str | None, typer.Option(help="tsv, csv, jsonl, lines or paragraphs, if not as the name says.")] = None,
    shard_size: Annotated[int, typer.Option(help="Examples kept together in one file, a multiple of 32.")] = 32,
    part: Annotated[str, typer.Option(help="2/5 computes the second of five parts, to be merged later.")] = "1/1",
    probes: Annotated[int, typer.Option(help="Random directions a token, for token_attribution.")] = 16,
    seed: Annotated[int, typer.Option(help="The same seed gives the same probes and samples.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in the folder.")] = False,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Count examples that fail, and leave them out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print progress and the end as lines of JSON.")] = False,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    allow_pickle: PickleOption = False,
) -> None:
    """Measure a whole corpus; a run that was stopped goes on with --resume."""
    with errors.status("loading torch and transformers …"):
        import identiformer as idf
    done = idf.run(
        corpus, model, measures.split(","), out=out, engine=engine, workers=workers, address=address, limit=limit,
        max_length=max_length, text_column=text_column, pair_column=pair_column, format=format, shard_size=shard_size, part=part,
        probes=probes, seed=seed, resume=resume, keep_going=keep_going, device=device, dtype=dtype, allow_pickle=allow_pickle,
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
        print_json(done.as_json(), indent=None)
    else:
        print(done.summary, end="")


def _print_run(done, as_json: bool) -> None:  # noqa: ANN001
    from identiformer.report import write_run_report

    page = write_run_report(done)
    print(
        json.dumps({"finished": str(done.path), "measures": list(done.results), "report": str(page)})
        if as_json
        else f"{done.summary}\nrun: {done.path}\nreport: {page}"
    )
