"""Compare maps over a corpus."""

import json
from pathlib import Path
from typing import Annotated

import typer

import identiformer as idf
from identiformer.cli import options
from identiformer.cli.application import app


@app.command(epilog="Example:  identiformer compare glue/MRPC --model minilm --limit 100 --out comparisons/mrpc")
def compare(
    corpus: options.Corpus,
    out: Annotated[Path, typer.Option(help="Folder of the comparison.")],
    model: options.Model = "minilm",
    maps: Annotated[
        str | None, typer.Option(help="Maps, separated by commas, such as raw,norm_layer; by default all cheap maps.")
    ] = None,
    yardsticks: Annotated[
        str | None,
        typer.Option(
            help="Yardsticks, separated by commas, such as value_zeroing,edge_knockout_renormalized; by default those that "
            "remove values or edges inside the model."
        ),
    ] = None,
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
    seed: Annotated[int, typer.Option(help="Seed of the random map and of random directions.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the comparison in the folder.")] = False,
    keep_going: options.KeepGoing = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print progress and the outcome as JSON lines.")] = False,
    device: options.Device = "cpu",
    dtype: options.Dtype = "auto",
    memory: options.Memory = "2GiB",
    allow_pickle: options.Pickle = False,
) -> None:
    """Judge maps by interventions on the model: which map predicts what happens when something is removed."""
    done = idf.compare(
        corpus, model, None if maps is None else options.split(maps), None if yardsticks is None else options.split(yardsticks),
        out=out, engine=engine, workers=workers, address=address, limit=limit, max_length=max_length, text_column=text_column,
        pair_column=pair_column, corpus_format=corpus_format, chat=chat, system=system, generate=generate, seed=seed,
        resume=resume, keep_going=keep_going, device=device, dtype=dtype, memory=memory,
        allow_pickle=allow_pickle, progress="json" if as_json else "bar",
    )  # fmt: skip
    from identiformer.readings.comparison import caveats, overview
    from identiformer.report import write_comparison

    page, result = write_comparison(done), done["faithfulness"]
    reading = {"overview": overview(result, done.provenance["corpus"]), "caveats": caveats(result)}
    if as_json:
        print(json.dumps({"finished": str(done.path), **reading, "report": str(page)}))
        return
    lines = (" ".join(reading["overview"]), "", *reading["caveats"], "", f"table: {done.path / 'table.csv'}", f"report: {page}")
    print(*lines, sep="\n")
