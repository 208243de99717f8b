"""One self-contained HTML page of an inspection: it needs no network and no other file."""

import base64
import html
import io
import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from identiformer.errors import InputError
from identiformer.figures import draw_attention_maps, draw_intervals, draw_layer_summary
from identiformer.measures import Certificate, Inspection
from identiformer.measures.inspection import HeadSummary, Received

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 76rem; margin: 2rem auto;
  padding: 0 1.5rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; }
h3 { font-size: 1rem; }
.text { background: #f5f5f2; padding: .8rem 1rem; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .8rem 0; }
caption { text-align: left; color: #555; padding-bottom: .3rem; }
th, td { padding: .25rem .9rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child, td.words { text-align: left; }
img { max-width: 100%; height: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .85rem; color: #444; }
dd { margin: 0; overflow-wrap: anywhere; }
"""


def write_report(inspection: Inspection, path: str | os.PathLike[str]) -> Path:
    """Write the page, whole or not at all."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"expected a file to write the report to, but {target} is a folder; add a name such as report.html.")
    page = render_report(inspection)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, suffix=".part", delete=False) as file:
            file.write(page)
        os.chmod(file.name, 0o644)
        os.replace(file.name, target)
    except OSError as error:
        raise InputError(f"the report cannot be written to {target} ({error.strerror}); choose another place.") from None
    return target


def render_report(inspection: Inspection) -> str:
    """The page as text."""
    attributes = inspection.result.attrs
    title = f"What may the attention of {attributes['model']} be taken to mean?"
    body = [f"<h1>{html.escape(title)}</h1>"]
    body += [f"<p class=text>{html.escape(str(attributes[name]))}</p>" for name in ("text", "pair") if name in attributes]
    body += [f"<p>{html.escape(sentence)}</p>" for sentence in inspection.sentences()]
    body += ["<h2>Layer by layer</h2>", _layer_table(inspection), _picture(_summary_figure(inspection), "Summary per layer")]
    for head in inspection.misleading:
        body.append(_head_section(inspection, head))
        body += [_certificate(each) for each in inspection.certificates if (each.layer, each.head) == (head.layer, head.head)]
    body += ["<h2>What was measured</h2>", _glossary(), "<h2>Where this came from</h2>", _provenance(inspection)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _layer_table(inspection: Inspection) -> str:
    rows = [
        f"<tr><td>{row.layer}</td><td>{row.heads_with_null_space}</td><td>{row.mean_nullity:.1f}</td>"
        f"<td>{row.mean_null_mass:.0%}</td><td>{row.mean_correlation:.2f}</td></tr>"
        for row in inspection.layers
    ]
    header = "<tr><th>layer</th><th>heads with a null space</th><th>nullity</th><th>null mass</th><th>correlation</th></tr>"
    return f"<table><caption>Means over the heads of a layer</caption>{header}{''.join(rows)}</table>"


def _head_section(inspection: Inspection, head: HeadSummary) -> str:
    title = f"<h2>Layer {head.layer}, head {head.head}</h2>"
    numbers = f"correlation {head.correlation:.2f}, null mass {head.null_mass:.0%}, nullity {head.nullity}"
    words = f"<p>Raw against effective attention: {numbers}.</p>"
    table = (
        "<table><caption>The tokens that receive most, as a mean over all queries</caption>"
        f"<tr><th>raw attention</th><td class=words>{_received(head.raw)}</td></tr>"
        f"<tr><th>effective attention</th><td class=words>{_received(head.effective)}</td></tr></table>"
    )
    if "raw" not in inspection.result:
        return title + words + table + "<p>The text is too long for maps; take rows of interest in Python.</p>"
    figure = Figure(figsize=(13, 5.2), layout="constrained")
    draw_attention_maps(inspection.result, head.layer, head.head, list(figure.subplots(1, 3, sharey=True)))
    picture = _picture(figure, f"Raw, effective and null attention of layer {head.layer}, head {head.head}")
    return title + words + table + picture


def _certificate(certificate: Certificate) -> str:
    words = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in certificate.sentences())
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    draw_intervals(certificate.result, certificate.query, certificate.alternative, figure.subplots())
    return "<h3>Put to the test</h3>" + words + _picture(figure, "Intervals of the weights of one row")


def _received(tokens: tuple[Received, ...]) -> str:
    return ", ".join(f"<code>{html.escape(each.token)}</code> at {each.position} ({each.mean:+.3f})" for each in tokens)


def _summary_figure(inspection: Inspection) -> Figure:
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    draw_layer_summary(inspection.result, figure.subplots())
    return figure


def _picture(figure: Figure, description: str) -> str:
    """The figure as an image within the page; its text stays text, so that any script a browser knows is shown."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context({"svg.fonttype": "none"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg")
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f'<p><img alt="{html.escape(description)}" src="data:image/svg+xml;base64,{encoded}"></p>'


def _glossary() -> str:
    return _definitions(
        {
            "raw attention A": "what the softmax gives, each row a distribution over keys",
            "effective A⊥": "the part of each row that the head's output can see; it may be negative and need not sum to one",
            "null A∥": "the rest: A = A⊥ + A∥, and A∥ leaves the output as it is",
            "nullity": "how many dimensions of a row the output cannot see: keys that it sees less the rank of their values",
            "null mass": "the share of a row's squared length that lies in A∥, as a mean over rows",
            "correlation": "Pearson's, of A with A⊥, over all entries that a query may see",
        }
    )


def _provenance(inspection: Inspection) -> str:
    return _definitions({name: value for name, value in inspection.result.attrs.items() if name not in ("text", "pair")})


def _definitions(entries: Mapping[Any, Any]) -> str:
    return "<dl>" + "".join(f"<dt>{html.escape(str(k))}</dt><dd>{html.escape(str(v))}</dd>" for k, v in entries.items()) + "</dl>"
