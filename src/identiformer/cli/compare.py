"""Compare maps over a corpus."""

import json
from pathlib import Path
from typing import Annotated

import typer

from identiformer.cli import options
from identiformer.cli.application import app, errors


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
    allow_pickle: options.Pickle = False,
) -> None:
    """Judge maps by interventions on the model: which map predicts what happens when something is removed."""
    with errors.status("loading torch and transformers …"):
        import identiformer as idf
        from identiformer.readings import Comparison
        from identiformer.report import write_comparison
    done = idf.compare(
        corpus, model, None if maps is None else maps.split(","), None if yardsticks is None else yardsticks.split(","),
        out=out, engine=engine, workers=workers, address=address, limit=limit, max_length=max_length, text_column=text_column,
        pair_column=pair_column, corpus_format=corpus_format, chat=chat, system=system, generate=generate, seed=seed,
        resume=resume, keep_going=keep_going, device=device, dtype=dtype,
        allow_pickle=allow_pickle, progress="json" if as_json else "bar",
    )  # fmt: skip
    page = write_comparison(done)
    comparison = Comparison(done["faithfulness"], done.provenance["corpus"])
    if as_json:
        reading = {"overview": comparison.overview(), "caveats": comparison.caveats()}
        print(json.dumps({"finished": str(done.path), **reading, "report": str(page)}))
        return
    print("\n".join([" ".join(comparison.overview()), "", *comparison.caveats(), "", f"table: {done.path / 'table.csv'}"]))
    print(f"report: {page}")
