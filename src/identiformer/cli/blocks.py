"""Blocks of a reading in a terminal."""

from collections.abc import Iterable

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from identiformer.cli.application import print_lines
from identiformer.readings.blocks import Block, Sentences, Table


def print_blocks(console: Console, blocks: Iterable[Block]) -> None:
    """Print sentences and tables, each with an empty line after it; figures are in reports."""
    for block in blocks:
        if isinstance(block, Sentences):
            print_lines(console, *([f"{block.title}:"] if block.title else []), *block.lines, "")
        elif isinstance(block, Table):
            if block.title:
                print_lines(console, block.title)
            console.print(_table(block))
            if block.notes:
                print_lines(console, *block.notes, "")


def _table(block: Table) -> Printed:
    """A table between empty lines, whose columns are those of its block; token text in it is not markup."""
    table = Printed(box=SIMPLE, pad_edge=False, collapse_padding=True)
    for number, name in enumerate(block.header):
        table.add_column(Text(name), justify="left" if number in block.words else "right", overflow="fold")
    for row in block.cells:
        table.add_row(*map(Text, row))
    return table
