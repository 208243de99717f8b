"""The built page, with what it shows put into it: one file that needs no network and no other file."""

import base64
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from identiformer.page.layer_maps import pack_layer
from identiformer.trace import AttentionLayer, AttentionStack


@cache
def built_page() -> str:
    """The page as `make page` built it from ui/."""
    return files("identiformer.page").joinpath("page.html").read_text(encoding="utf-8")


def render(title: str, first: str, rest: str = "", before: str = "", after: str = "") -> str:
    """The page with a title, its data, and HTML before and after the interactive part.

    first: the data that the page needs to draw anything; it draws while a browser still reads the rest.
    """
    page = built_page()
    page = page.replace("<title>identiformer</title>", f"<title>{html.escape(title)}</title>", 1)
    contents = {"before": before, "first": first, "after": after, "rest": rest}
    # All at once, so that nothing put in is searched for what is still to be put in.
    return re.sub("<!--(before|first|after|rest)-->", lambda mark: contents[mark[1]], page)


def data_of(summary: Mapping[str, Any], stack: AttentionStack, origins: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """A summary, what makes the maps of every layer, and where hidden vectors came from, if that is known.

    As elements of a page: what is seen first, and the rest.
    """
    layers = {layer.number: _layer_element(layer) for layer in stack.layers}
    first = layers.pop(summary["first"]["layer"])
    rest = [*layers.values(), *([] if origins is None else [json_element("identiformer-origins", origins)])]
    return json_element("identiformer-summary", summary) + "\n" + first, "\n".join(rest)


def _layer_element(layer: AttentionLayer) -> str:
    content = base64.b64encode(pack_layer(layer)).decode()
    return f'<script type="text/plain" id="identiformer-layer-{layer.number}">{content}</script>'


def json_element(name: str, value: Any) -> str:
    """Plain data as an element of a page; no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def policy() -> str:
    """The page's own content-security policy, which allows its script and nothing else."""
    found = re.search('<meta http-equiv="Content-Security-Policy" content="([^"]*)">', built_page())
    assert found is not None
    return found[1]
