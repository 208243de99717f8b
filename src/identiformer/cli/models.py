"""Which architectures work, and why not where they do not."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from identiformer.cli.shared import JsonOption, app, errors, print_json


@app.command(epilog="Example:  identiformer models --verify bert,llama,deberta-v2")
def models(
    verify: Annotated[
        str | None, typer.Option(help="Check these architectures now, separated by commas; all checks every one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List every architecture in transformers with what works, and why not where it does not."""
    with errors.status("loading torch and transformers …"):
        from identiformer.support.verification import known_support, verify_models
    names = None if verify in (None, "all") else [name.strip() for name in verify.split(",")]
    found = known_support() if verify is None else verify_models(names, progress=errors.is_terminal)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    console = Console(highlight=False)
    for each in found:
        works = [name for name, reason in each.reasons.items() if not reason]
        told = ", ".join(works) if len(works) < len(each.reasons) else "all"
        console.print(f"[bold]{each.architecture}[/bold] ({each.reads or 'not built'}): {told or 'nothing'}")
        if each.why_not:
            console.print(Padding(Text(each.why_not), (0, 0, 0, 4)))
    console.print(f"{sum(each.verified for each in found)} of {len(found)} architectures attend as recorded, by every check.")
