"""Arguments and options that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from identiformer.errors import InputError


def decode_text(text: str | None) -> str | None:
    """Read bytes of a command-line argument that the locale does not cover as UTF-8."""
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


Text = Annotated[
    str | None,
    typer.Argument(help="Text to run through the model; a built-in passage by default.", callback=decode_text),
]
Pair = Annotated[str | None, typer.Option(help="A second text, read together with the first.", callback=decode_text)]
Model = Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Truncate = Annotated[bool, typer.Option(help="Truncate texts that are too long for the model.")]
Device = Annotated[str, typer.Option(help="Device to run the model on, such as cpu or cuda.")]
Dtype = Annotated[str, typer.Option(help="Precision to run the model in.")]
Pickle = Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")]
Corpus = Annotated[
    str,
    typer.Argument(
        help="GLUE folder; TSV, CSV, JSONL or text file; - for standard input; or the name of a dataset.", show_default=False
    ),
]
Run = Annotated[
    Path | None,
    typer.Option(help="Folder of a run of the same model with token_attribution, to show its medians next to a token's share."),
]
Limit = Annotated[int | None, typer.Option(help="Use only the first N examples.")]
MaxLength = Annotated[int | None, typer.Option(help="Truncate texts to N tokens, and count those that were truncated.")]
