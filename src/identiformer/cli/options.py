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
Image = Annotated[
    Path | None, typer.Option(help="An image file to run through a vision model, in place of a text.", show_default=False)
]
Pair = Annotated[str | None, typer.Option(help="A second text, read together with the first.", callback=decode_text)]
Chat = Annotated[
    bool, typer.Option("--chat", help="Put the text into the model's chat template, as a user's message, and let it answer.")
]
System = Annotated[str | None, typer.Option(help="The system message of a chat.", callback=decode_text)]
Generate = Annotated[
    int | None,
    typer.Option(help="Let a language model write up to N tokens after the text; 60 with --chat.", metavar="N"),
]
Model = Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Truncate = Annotated[bool, typer.Option(help="Truncate texts that are too long for the model.")]
Device = Annotated[str, typer.Option(help="Device to run the model on, such as cpu or cuda.")]
DeviceMap = Annotated[
    str | None,
    typer.Option(
        help="Where to keep the weights of a model that does not fit on one device: auto fills GPUs, then memory, then disk; "
        "disk keeps all weights on disk."
    ),
]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the hub.")]
Dtype = Annotated[
    str, typer.Option(help="Precision to run the model in: auto for that of its files, or float32, float64, bfloat16, float16.")
]
Pickle = Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")]
Corpus = Annotated[
    str,
    typer.Argument(
        help="GLUE folder; TSV, CSV, JSONL or text file; - for standard input; or the name of a dataset.", show_default=False
    ),
]
Run = Annotated[
    Path | None,
    typer.Option(help="Folder of a corpus run of the same model with token_attribution, whose medians are shown for comparison."),
]
Limit = Annotated[int | None, typer.Option(help="Use only the first N examples.")]
MaxLength = Annotated[int | None, typer.Option(help="Truncate texts to N tokens, and count those that were truncated.")]
Engine = Annotated[str, typer.Option(help="serial, or ray for several workers.")]
Workers = Annotated[int, typer.Option(help="Number of Ray workers.")]
Address = Annotated[str | None, typer.Option(help="HOST:PORT of a Ray cluster; without it, Ray runs on this machine.")]
TextColumn = Annotated[str | None, typer.Option(help="Column or key of the text.")]
PairColumn = Annotated[str | None, typer.Option(help="Column or key of the second text of a pair.")]
Format = Annotated[
    str | None, typer.Option("--format", help="tsv, csv, jsonl, lines or paragraphs; by default from the file name.")
]
KeepGoing = Annotated[bool, typer.Option("--keep-going", help="Record examples that fail and continue without them.")]


def check_one_input(image: Path | None, text: str | None, pair: str | None) -> None:
    """Reject an image together with a text."""
    if image is not None and (text is not None or pair is not None):
        raise InputError("expected a text or --image, got both; leave one out.")
