"""The built page as a Jinja template, with its data as elements: one file that needs no network and no other file."""

import base64
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from identiformer.page.layer_maps import pack_layer
from identiformer.readings.blocks import Bold
from identiformer.trace import AttentionStack

PAGE = "page/page.html"
"""The template that ui/ is built into: `title`, `first` and `rest` (data), blocks `before` and `after` the interactive part."""


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("identiformer", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["bold"] = lambda cell: isinstance(cell, Bold)
    return environment


def render(template: str, **values: Any) -> str:
    """Fill in a template, named by its path in this package; every value that is not Markup is escaped."""
    return _templates().get_template(template).render(values)


def data_elements(
    summary: Mapping[str, Any],
    stack: AttentionStack,
    attribution: Mapping[str, Any] | None = None,
    bounds: Mapping[str, Any] | None = None,
) -> dict[str, Markup]:
    """The data of a text as elements of the page: `first` is enough to draw a head while a browser still reads the `rest`."""
    element = Markup('<script type="text/plain" id="identiformer-layer-{}">{}</script>')
    packed = {layer.number: base64.b64encode(pack_layer(layer)).decode() for layer in stack.layers}
    layers = {number: element.format(number, content) for number, content in packed.items()}
    first = [json_element("summary", summary), layers.pop(summary["first"]["layer"])]
    panels = {"attribution": attribution, "bounds": bounds}
    rest = [*layers.values(), *(json_element(name, content) for name, content in panels.items() if content is not None)]
    return {"first": Markup("\n").join(first), "rest": Markup("\n").join(rest)}


def json_element(name: str, value: Any) -> Markup:
    """JSON as an element of the page; no text in it can end the element."""
    text = htmlsafe_json_dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup('<script type="application/json" id="identiformer-{}">{}</script>').format(name, text)


def content_security_policy() -> str:
    """The policy that the page states for itself: it allows the page's own script and nothing else."""
    page = files("identiformer.page").joinpath("page.html").read_text(encoding="utf-8")
    return re.findall('<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)[0]
