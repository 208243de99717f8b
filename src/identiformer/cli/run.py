"""Run measures over a corpus, merge the parts of a run, and print results."""

import json
from pathlib import Path
from typing import Annotated

import typer

import identiformer as idf
from identiformer.cli import options
from identiformer.cli.application import app, print_json, print_markdown


@app.command(epilog="Example:  identiformer run glue/MRPC --model minilm --measures effective_attention --out runs/mrpc")
def run(
    corpus: options.Corpus,
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    model: options.Model = "minilm",
    measures: Annotated[
        str,
        typer.Option(
            help="Measures, separated by commas: effective_attention, attention_identifiability, token_attribution, "
            "self_contribution_by_tag, ambiguity, reading, faithfulness."
        ),
    ] = "effective_attention,attention_identifiability",
    engine: options.Engine = "serial",
    workers: options.Workers = 1,
    address: options.Address = None,
    limit: options.Limit = None,
    max_length: options.MaxLength = None,
    text_column: options.TextColumn = None,
    pair_column: options.PairColumn = None,
    corpus_format: options.Format = None,
    chat: options.Chat = False,
    system: options.System = None,
    generate: options.Generate = None,
    shard_size: Annotated[int, typer.Option(help="Examples per shard, a multiple of 32.")] = 32,
    part: Annotated[str, typer.Option(help="Compute one part of the run, such as 2/5, to merge later.")] = "1/1",
    directions: Annotated[int, typer.Option(help="Number of random directions per token, for token_attribution.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the random directions and samples.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    keep_going: options.KeepGoing = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print progress and the outcome as JSON lines.")] = False,
    device: options.Device = "cpu",
    dtype: options.Dtype = "auto",
    memory: options.Memory = "2GiB",
    allow_pickle: options.Pickle = False,
) -> None:
    """Compute measures over a whole corpus; --resume continues an interrupted run."""
    done = idf.run(
        corpus, model, options.split(measures), out=out, engine=engine, workers=workers, address=address, limit=limit,
        max_length=max_length, text_column=text_column, pair_column=pair_column, corpus_format=corpus_format,
        chat=chat, system=system, generate=generate, shard_size=shard_size, part=part, directions=directions,
        seed=seed, resume=resume, keep_going=keep_going, device=device, dtype=dtype,
        memory=memory, allow_pickle=allow_pickle, progress="json" if as_json else "bar",
    )  # fmt: skip
    _print_run(done, as_json)


@app.command(epilog="Example:  identiformer merge runs/part1 runs/part2 --out runs/whole")
def merge(
    parts: Annotated[list[Path], typer.Argument(help="Folders of the runs with --part 1/N to N/N.")],
    out: Annotated[Path, typer.Option(help="Folder of the merged run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the folder of the merged run as JSON.")] = False,
) -> None:
    """Merge the parts of a run that were computed on separate machines."""
    _print_run(idf.merge_runs(parts, out), as_json)


@app.command(epilog="Example:  identiformer results runs/mrpc")
def results(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Print the results of a run."""
    if as_json:
        print_json(idf.open_run(folder).as_json(), indent=None)
    else:
        from identiformer.runs.finished_files import read_finished
        from identiformer.runs.folder import RunFolder

        print_markdown(read_finished(RunFolder.at(folder)).summary)


def _print_run(done, as_json: bool) -> None:  # noqa: ANN001
    from identiformer.report import write_run_report

    page = write_run_report(done)
    if as_json:
        print(json.dumps({"finished": str(done.path), "measures": list(done.results), "report": str(page)}))
    else:
        print_markdown(done.summary)
        print(f"\nrun: {done.path}\nreport: {page}")
