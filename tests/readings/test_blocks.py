"""Blocks of a reading: how cells are shown, in a terminal and in a report."""

from io import StringIO

from matplotlib.figure import Figure as Drawn
from rich.console import Console

from identiformer.cli.blocks import print_blocks
from identiformer.readings.blocks import Bold, Figure, Sentences, Table, cell_text
from identiformer.report.reports import blocks_document

ROWS = [
    {"layer": "1", "share": 0.126, "score": "0.84 [0.80, 0.88]", "tokens": "[CLS] 0\n<b> 3"},
    {"layer": "2", "share": float("nan"), "score": Bold("—"), "tokens": ""},
]
TABLE = Table("What [bold]it[/bold] is", ROWS, ("share: of all",))


def test_cells_are_shares_or_text():
    assert [cell_text(share) for share in (0.126, -0.001, float("nan"), "12.3%")] == ["13%", "0%", "–", "12.3%"]
    assert TABLE.header == ["layer", "share", "score", "tokens"]
    assert TABLE.cells[0] == ["1", "13%", "0.84 [0.80, 0.88]", "[CLS] 0\n<b> 3"]
    assert TABLE.words == [0, 3]
    assert (Table("", []).header, Table("", []).words) == ([], [])


def test_a_terminal_shows_sentences_and_tables_and_no_markup():
    out = StringIO()
    blocks = [Sentences("Found", ["One [i]thing[/i]."]), Figure("not here", lambda: None), TABLE, Sentences("", ["Two."])]
    print_blocks(Console(file=out, width=80), blocks)
    printed = out.getvalue()
    assert printed.startswith("Found:\nOne [i]thing[/i].\n\nWhat [bold]it[/bold] is")
    assert "not here" not in printed
    lines = [line.rstrip() for line in printed.splitlines()]
    assert any(line.split() == ["1", "13%", "0.84", "[0.80,", "0.88]", "[CLS]", "0"] for line in lines)
    assert lines[-4:] == ["share: of all", "", "Two.", ""]


def test_a_report_shows_all_blocks_and_escapes_them():
    figures = [Figure("A <picture>", lambda: Drawn().subplots()), Figure("nothing", lambda: None)]
    page = blocks_document("", [Sentences("Found", ["a < b"]), TABLE, *figures], {})
    assert "<h2>Found</h2>\n<p>a &lt; b</p>" in page
    assert "<h2>What [bold]it[/bold] is</h2>\n<table><caption>share: of all</caption>" in page
    assert "<td class=words>1</td><td>13%</td><td>0.84 [0.80, 0.88]</td><td class=words>[CLS] 0 · &lt;b&gt; 3</td>" in page
    assert "<td><b>—</b></td>" in page
    assert page.count("data:image/svg+xml") == 1
    assert "<p>A &lt;picture&gt;</p>" in page
    assert "nothing" not in page
