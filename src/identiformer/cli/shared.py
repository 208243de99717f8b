"""What all commands share: the application, where messages go, and options that several commands have."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="What may a transformer's attention map be taken to mean?",
)
errors = Console(stderr=True)

TextArgument = Annotated[str | None, typer.Argument(help="The text to run through the model; without it, an embedded passage.")]
PairOption = Annotated[str | None, typer.Option(help="A second text, read together with the first.")]
ModelOption = Annotated[str, typer.Option(help="minilm, smollm2, a folder, a GGUF file or a hub id.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")]
TruncateOption = Annotated[bool, typer.Option(help="Cut texts that are longer than the model takes.")]
DeviceOption = Annotated[str, typer.Option(help="Where to run the model.")]
DtypeOption = Annotated[str, typer.Option(help="The precision to run it in.")]
PickleOption = Annotated[bool, typer.Option(help="Accept weights stored as a Python pickle, which can run any code.")]
CorpusArgument = Annotated[
    str,
    typer.Argument(
        help="A GLUE folder, a TSV, CSV, JSONL or text file, - for standard input, or a dataset's name.", show_default=False
    ),
]
RunOption = Annotated[
    Path | None,
    typer.Option(
        help="The folder of a run with token_attribution, of the same model: its medians are shown beside a token's share."
    ),
]
LimitOption = Annotated[int | None, typer.Option(help="Only the first so many examples.")]
MaxLengthOption = Annotated[int | None, typer.Option(help="Cut texts to so many tokens, and count those that were cut.")]


def load_model(name: str, device: str, dtype: str = "float32", allow_pickle: bool = False) -> Any:
    """Load a model, and say what is being waited for."""
    with errors.status("loading torch and transformers …") as status:
        import identiformer as idf

        status.update(f"loading {name} …")
        return idf.load(name, device=device, dtype=dtype, allow_pickle=allow_pickle)


@app.callback()
def _commands() -> None:
    """What may a transformer's attention map be taken to mean?"""
