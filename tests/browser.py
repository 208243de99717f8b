import shutil
import threading
from pathlib import Path

import pytest

from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts

# Debian's Chromium, as root in a container, and with nothing that it would look up by itself.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


AXE = Path(__file__).parents[1] / "ui" / "node_modules" / "axe-core" / "axe.min.js"


def barriers(page):
    """What keeps somebody from using the page, by axe-core, where it is serious."""
    if not AXE.is_file():
        pytest.skip("needs axe-core: make page")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        (each["id"], node["html"][:120], node["failureSummary"][:200])
        for each in page.evaluate("() => axe.run()")["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


@pytest.fixture(scope="session")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs a browser: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page, in a browser without a network; it may not complain of anything."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def serving():
    """Start servers, and stop them in the end."""
    running = []

    def start(model, text, pair=None, corpus=None):
        texts = Texts(lambda name: model, [model.name, "another"], {model.name: model}, corpus)
        server = LocalServer(texts, {"text": text, "pair": pair, "model": model.name})
        thread = threading.Thread(target=server.run)
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.stop()
        thread.join(timeout=30)
        assert not thread.is_alive()
