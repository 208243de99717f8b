"""Arguments and options that several commands share, and what of them is checked before torch is imported."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from identiformer.errors import InputError
from identiformer.files import require_regular
from identiformer.models.generation.settings import Generation
from identiformer.names import check_name
from identiformer.options import (
    check_generation_config,
    check_limit,
    check_max_length,
    check_memory,
    check_seed,
    check_temperature,
)


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


def _size(memory: str) -> str:
    check_memory(memory)  # before a model is loaded
    return memory


def decode_nonempty(text: str | None) -> str | None:
    """Decode a text, and reject an empty one."""
    if text is not None and not text.strip():
        raise InputError("expected a text, got an empty one; pass at least one word.")
    return decode_text(text)


def one_of(what: str, names: Sequence[str]) -> Callable[[str | None], str | None]:
    """A callback that accepts these names."""

    def check(name: str | None) -> str | None:
        return None if name is None else check_name(what, name, names)

    return check


def split(names: str) -> list[str]:
    """The names in a list with commas, and perhaps spaces after them."""
    return [name.strip() for name in names.split(",")]


def valid_seed(seed: int) -> int:
    """Return a seed that all generators of random numbers accept."""
    return check_seed(seed)


valid_generation_config, valid_temperature = check_generation_config, check_temperature


def readable(path: Path | None) -> Path | None:
    """Return a path if it is that of a file, or none is given."""
    if path is not None:
        try:
            require_regular(path)
        except OSError as error:
            raise InputError(f"expected a file, but {path} cannot be read ({error.strerror}); check the path.") from None
    return path


Text = Annotated[
    str | None,
    typer.Argument(help="Text to run through the model; a built-in passage by default.", callback=decode_nonempty),
]
Image = Annotated[
    Path | None,
    typer.Option(help="An image file to run through a vision model, in place of a text.", show_default=False, callback=readable),
]
Pair = Annotated[str | None, typer.Option(help="A second text, read together with the first.", callback=decode_nonempty)]
Chat = Annotated[
    bool, typer.Option("--chat", help="Put the text into the model's chat template, as a user's message, and let it answer.")
]
System = Annotated[str | None, typer.Option(help="The system message of a chat.", callback=decode_text)]
Generate = Annotated[
    int | None,
    typer.Option(help="Let a language model write up to N tokens after the text; 60 with --chat.", metavar="N"),
]
Model = Annotated[str, typer.Option(help="minilm, smollm2 (in 4 bits), a folder, a GGUF file or a hub id.")]
Target = Annotated[
    str,
    typer.Option(
        help="What of the output to ask about: output (all predictions, or the embedding), next (the next token, or the class), "
        "embedding, hidden, a token or class, two tokens as A/B, step:N for token N of an answer, or, for a model without "
        "predictions, a text to be similar to.",
        callback=decode_nonempty,
    ),
]
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
Memory = Annotated[
    str,
    typer.Option(
        callback=_size,
        help="What the query × key arrays of a result may take, such as 4GiB. Of a text that needs more, what fits is computed.",
    ),
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
Limit = Annotated[int | None, typer.Option(help="Use only the first N examples.", callback=check_limit)]
MaxLength = Annotated[
    int | None, typer.Option(help="Truncate texts to N tokens, and count those that were truncated.", callback=check_max_length)
]
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


def check_answer(chat: bool, system: str | None, generate: int | None, pair: str | None) -> Generation | None:
    """How the model is to answer the text; None if the text is read as it is."""
    generation = Generation.of(chat, system, generate)
    if generation is not None and pair is not None:
        raise InputError("expected one text for a language model to answer, got a pair; leave --pair out.")
    return generation


def output_target(written: str) -> str | int | tuple[str, str]:
    """What `--target` names, as functions take it."""
    if step := re.fullmatch("step:([0-9]{1,9})", written):
        return int(step[1])
    first, slash, second = written.partition("/")
    return (first, second) if slash and first and second and " " not in written.strip() else written
