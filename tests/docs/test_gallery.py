"""The gallery shows every kind of report and every drawing function, with code that runs."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer

import identiformer as idf
from docs import make_gallery
from docs.gallery_entries import FIGURES, PRELUDE, REPORTS
from identiformer.cli import app


def test_every_drawing_function_has_a_figure():
    drawing = {name for name in idf.figures.__all__ if name.startswith("draw_")}
    assert {entry.function for entry in FIGURES} == drawing
    for entry in FIGURES:
        assert f"idf.figures.{entry.function}(" in entry.code.splitlines()[-1]
        ast.parse(entry.code)
    ast.parse(PRELUDE)


def test_every_command_parses():
    commands = typer.main.get_command(app).commands
    assert len(REPORTS) == 9
    for entry in REPORTS:
        if not entry.command.startswith("identiformer "):
            ast.parse(entry.command)
            assert f'"{entry.file}"' in entry.command
            continue
        _, name, *words = shlex.split(entry.command)
        context = commands[name].make_context(name, words)
        assert Path(entry.file).parts[0] == str(context.params["out"])


def test_figures_are_drawn_and_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(make_gallery, "OUT", tmp_path)
    monkeypatch.setattr(make_gallery, "REPORTS", ())
    monkeypatch.setattr(make_gallery, "PRELUDE", "import identiformer as idf\nimport xarray as xr\nvalues = [[0.1, 0.2]]")
    code = 'one = xr.DataArray(values, {"layer": [1]}, ("layer", "head"))\nidf.figures.draw_over_layers({"share": one}, "a row")'
    monkeypatch.setattr(make_gallery, "FIGURES", (make_gallery.FigureEntry("draw_over_layers", "Shares", code),))
    make_gallery.main([])
    assert (tmp_path / "figures" / "draw_over_layers.png").stat().st_size > 1000
    assert re.search(r'<img src="figures/draw_over_layers.png" alt="Shares"', (tmp_path / "index.html").read_text())


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_gallery_is_accessible(page):
    from tests.browser import accessibility_violations

    built = make_gallery.OUT / "index.html"
    if not built.is_file():
        pytest.skip("needs the gallery: make gallery")
    page.goto(built.as_uri())
    assert accessibility_violations(page) == []
    assert page.locator("figure img").evaluate_all("images => images.every(image => image.naturalWidth > 0 || !image.complete)")
