"""The documentation site builds without warnings and without a network, and works in a browser."""

import os
import re
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import identiformer as idf
from docs.make_reference import MODULES
from tests.browser import accessibility_violations

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first test builds the site, which may take ten minutes


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for package in ("sphinx", "myst_nb", "numpydoc", "pydata_sphinx_theme", "sphinx_copybutton", "sphinx_design"):
        pytest.importorskip(package, reason="needs the packages of the group docs: make site")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--builder", "html"]
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    environment = os.environ | nowhere | {"PYTHONPATH": str(ROOT / "src")}
    environment.pop("INTERSPHINX", None)
    done = subprocess.run([*command, ROOT / "docs", out], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def address(site):
    """The address of the site on a local server; a file may not fetch another file, which the search page does for excerpts."""
    handler = partial(QuietHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serve files without a log."""

    def log_message(self, *_):
        pass


class Links(HTMLParser):
    """The targets of a page's links, and the names that links can point to."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.names = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.names |= {found[key] for key in ("id", "name") if found.get(key)}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


def test_every_public_name_has_a_page(site):
    written = (site / "generated" / "api.html").read_text(encoding="utf-8")
    names = [f"identiformer.{name}" for name in idf.__all__ if name not in MODULES]
    names += [f"identiformer.{module}.{name}" for module in MODULES for name in getattr(idf, module).__all__]
    for name in names:
        page = site / "generated" / "api" / f"{name}.html"
        assert page.is_file(), name
        assert f'href="api/{name}.html' in written
        assert f'id="{name}"' in page.read_text(encoding="utf-8"), name


def test_links_inside_the_site_are_valid(site):
    own = (path for path in site.rglob("*.html") if path.relative_to(site).parts[0] not in ("gallery", "_static"))
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in own}  # not reports, which are programs, nor templates
    assert len(pages) > 100
    broken = []
    for path, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                assert parts.scheme in ("https", "mailto", "data"), target
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            named = not parts.fragment or goal not in pages or unquote(parts.fragment) in pages[goal].names
            if not goal.exists() or not named:
                broken.append((path.relative_to(site).as_posix(), target))
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(site):
    for path in site.rglob("*.html"):  # the gallery too
        loaded = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="(https?:[^"]+)"', path.read_text(encoding="utf-8"))
        assert loaded == [], path.name


def test_search_finds_a_page(address, page):
    page.goto(f"{address}/search.html?q=attention+sink")
    page.wait_for_selector("#search-results li a")
    found = page.locator("#search-results li a").all_inner_texts()
    assert any("attention map" in title for title in found), found
    page.goto(f"{address}/search.html?q=token_attribution")
    page.wait_for_selector("#search-results li a")


def test_the_table_of_architectures_filters(address, page):
    page.goto(f"{address}/generated/architectures.html")
    count = page.locator("#architecture-count")
    everything = count.inner_text()
    page.fill("#architecture-name", "llama")
    page.wait_for_function(f"document.getElementById('architecture-count').textContent !== '{everything}'")
    names = page.locator("#architectures tbody tr:visible").evaluate_all("rows => rows.map(row => row.dataset.name)")
    assert "llama" in names
    assert all("llama" in name for name in names)
    page.select_option("#architecture-capability", label="attribution")
    works = page.locator("#architectures tbody tr:visible td.yes").count()
    assert works > 0


@pytest.mark.parametrize(
    "name",
    [
        *("index", "start", "reading", "glossary", "tutorials/index", "tutorials/trust_a_head", "generated/api"),
        *(
            "generated/commands",
            "generated/schema",
            "generated/architectures",
            "generated/gallery",
            "generated/api/identiformer.load",
        ),
    ],
)
def test_pages_are_accessible(address, page, name):
    page.goto(f"{address}/{name}.html")
    assert accessibility_violations(page) == []


@pytest.mark.parametrize("name", ["index", "start", "reading", "generated/commands", "generated/api/identiformer.load"])
def test_no_text_is_cut_off_on_a_phone(address, page, name):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/{name}.html")
    beyond = "cells => cells.filter(cell => cell.getBoundingClientRect().right > innerWidth).map(cell => cell.textContent)"
    assert page.locator("article h1, article p:not(table p), article li").evaluate_all(beyond) == []
