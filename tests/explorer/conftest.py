import shutil
import threading

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

    def start(model, text, pair=None):
        texts = Texts(lambda name: model, [model.name, "another"], {model.name: model})
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
