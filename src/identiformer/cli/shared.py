"""What all commands share: the application, where messages go, and options that several commands have."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from identiformer.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="What may a transformer's attention map be taken to mean?",
)
errors = Console(stderr=True)


def readable(text: str | None) -> str | None:
    """A text of the command line; bytes that the locale does not cover are read as UTF-8."""
    if text is None or text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        try:
            return os.fsencode(text).decode("utf-8")
        except UnicodeError as error:
            raise InputError(f"expected a text in UTF-8, got {text[:60]!a} ({error}); convert it first.") from None
    return text


TextArgument = Annotated[
    str | None,
    typer.Argument(help="Text to run through the model; a built-in passage by default.", callback=readable),
]
PairOption = Annotated[str | None, typer.Option(help="A second text, read together with the first.", callback=readable)]
ModelOption = Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
TruncateOption = Annotated[bool, typer.Option(help="Truncate texts that are too long for the model.")]
DeviceOption = Annotated[str, typer.Option(help="Device to run the model on, such as cpu or cuda.")]
DtypeOption = Annotated[str, typer.Option(help="Precision to run the model in.")]
PickleOption = Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")]
CorpusArgument = Annotated[
    str,
    typer.Argument(
        help="GLUE folder; TSV, CSV, JSONL or text file; - for standard input; or the name of a dataset.", show_default=False
    ),
]
RunOption = Annotated[
    Path | None,
    typer.Option(help="Folder of a run of the same model with token_attribution, to show its medians next to a token's share."),
]
LimitOption = Annotated[int | None, typer.Option(help="Use only the first N examples.")]
MaxLengthOption = Annotated[int | None, typer.Option(help="Truncate texts to N tokens, and count those that were truncated.")]


def load_model(name: str, device: str, dtype: str = "float32", allow_pickle: bool = False) -> Any:
    """Load a model, and say what is being waited for."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf

        status.update(f"loading {name} …")
        return idf.load(name, device=device, dtype=dtype, allow_pickle=allow_pickle)


def print_json(findings: Any, indent: int | None = 2) -> None:
    """Print JSON, in characters as they are where standard output is in Unicode, escaped where it is not."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(findings, ensure_ascii=not unicode, indent=indent))


@app.callback()
def _commands() -> None:
    """What may a transformer's attention map be taken to mean?"""
