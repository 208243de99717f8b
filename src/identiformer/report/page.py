"""One self-contained HTML page: it needs no network and no other file."""

import base64
import html
import io
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from identiformer.errors import InputError
from identiformer.files import write_whole
from identiformer.page.html import render

DPI = 200
"""Of pictures, legible in print."""
# Matplotlib writes the time into pictures, and identifiers drawn at random: the same figure is to be the same bytes.
DATES = {"svg": "Date", "pdf": "CreationDate", "ps": "CreationDate"}
REPRODUCIBLE: Any = {"svg.hashsalt": "identiformer", "svg.fonttype": "none"}
# The names of colors are those of the interactive page, which has a dark theme; by themselves reports are light.
STYLE = """
body { margin: 0; }
.report { font: 16px/1.55 system-ui, sans-serif; color: var(--ink, #1a1a1a); max-width: 76rem; margin: 2rem auto;
  padding: 0 1.5rem; }
.report h1 { font-size: 1.6rem; margin-bottom: .2rem; }
.report h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.report h3 { font-size: 1rem; }
.report .text { background: var(--raised, #f5f5f2); padding: .8rem 1rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; max-height: 14rem; overflow: auto; }
.report table { border-collapse: collapse; margin: .8rem 0; }
.report caption { text-align: left; color: var(--quiet, #555); padding-bottom: .3rem; }
.report th, .report td { padding: .25rem .9rem; text-align: right; border-bottom: 1px solid var(--line, #ddd); }
.report th:first-child, .report td:first-child, .report .words { text-align: left; }
.report img { max-width: 100%; height: auto; background: #fff; }
.report dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .85rem;
  color: var(--quiet, #444); }
.report a { color: var(--accent, #0b5394); }
.report dd { margin: 0; overflow-wrap: anywhere; }
@media print { .report .text { max-height: none; } }
"""


def render_page(title: str, body: Sequence[str]) -> str:
    """The page as text."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + section([heading(title), *body])
        + "\n</body></html>\n"
    )


def render_interactive_page(title: str, before: Sequence[str], data: tuple[str, str], after: Sequence[str]) -> str:
    """The same around the interactive view of the data."""
    return render(title, *data, f"<style>{STYLE}</style>\n" + section([heading(title), *before]), section(after))


def section(body: Sequence[str]) -> str:
    """Parts of a report, in its style."""
    return "<div class=report>\n" + "\n".join(body) + "\n</div>"


def heading(title: str) -> str:
    """What the page is about."""
    return f"<h1>{html.escape(title)}</h1>"


def write_report_file(content: bytes, path: str | os.PathLike[str]) -> Path:
    """Write a page or a picture, whole or not at all."""
    real = report_target(path)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        write_whole(real, content)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"the report cannot be written to {path}, which leads through a file; choose another place.") from None
    except OSError as error:
        raise InputError(f"the report cannot be written to {path} ({error.strerror}); choose another place.") from None
    return Path(path)


def report_target(path: str | os.PathLike[str]) -> Path:
    """The file that a report is written to, which a symbolic link may name; an error where it could not be put in place."""
    real = Path(os.path.realpath(path))
    if os.path.isdir(real):
        raise InputError(f"expected a file to write the report to, but {path} is a folder; add a name such as report.html.")
    # The finished file takes over the name, so that a device or a pipe would be gone.
    if os.path.lexists(real) and not os.path.isfile(real):
        raise InputError(f"expected a file to write the report to, but {path} is a device, a pipe or a link to itself.")
    return real


def paragraphs(sentences: Sequence[str]) -> list[str]:
    """A paragraph each."""
    return [f"<p>{html.escape(sentence)}</p>" for sentence in sentences]


def texts(attributes: Mapping[Any, Any]) -> list[str]:
    """The texts that a result was made from."""
    return [
        f"<p class=text tabindex=0>{html.escape(str(attributes[name]))}</p>" for name in ("text", "pair") if name in attributes
    ]


def provenance(attributes: Mapping[Any, Any]) -> str:
    """Where a result came from."""
    return definitions({name: value for name, value in attributes.items() if name not in ("text", "pair")})


def draw(figure: Figure, kind: str) -> bytes:
    """The figure as a file of this kind; its text stays text in SVG, so that any script a browser knows is shown."""
    buffer = io.BytesIO()
    undated: dict[str, Any] = {DATES[kind]: None} if kind in DATES else {}
    with warnings.catch_warnings(), mpl.rc_context(REPRODUCIBLE):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=undated)
    return buffer.getvalue()


def picture(figure: Figure, description: str) -> str:
    """The figure as an image within the page."""
    encoded = base64.b64encode(draw(figure, "svg")).decode()
    return f'<p><img alt="{html.escape(description)}" src="data:image/svg+xml;base64,{encoded}"></p>'


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[int] = ()) -> str:
    """A table of cells that are HTML already; columns of words stand to the left."""

    def line(cells: Sequence[str], kind: str) -> str:
        marked = (f"<{kind}{' class=words' if place in words else ''}>{cell}</{kind}>" for place, cell in enumerate(cells))
        return f"<tr>{''.join(marked)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><caption>{caption}</caption>{line(header, 'th')}{body}</table>"


def definitions(entries: Mapping[Any, Any]) -> str:
    """Terms and what they stand for."""
    return "<dl>" + "".join(f"<dt>{html.escape(str(k))}</dt><dd>{html.escape(str(v))}</dd>" for k, v in entries.items()) + "</dl>"
