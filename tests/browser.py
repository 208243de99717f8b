import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

# Debian's Chromium, as root in a container, without its own network traffic.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


AXE = Path(__file__).parents[1] / "ui" / "node_modules" / "axe-core" / "axe.min.js"


def accessibility_violations(page):
    """Accessibility violations of any severity, by axe-core."""
    if not AXE.is_file():
        pytest.skip("needs axe-core: make page")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        (violation["id"], node["html"][:120], node["failureSummary"][:200])
        for violation in page.evaluate("() => axe.run()")["violations"]
        for node in violation["nodes"][:3]
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
    """A page in a browser without a network, which must not log errors or warnings."""
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
    """Start servers, and stop them after the test; request it before `page`, which polls its server until it is closed."""
    from identiformer.explorer.server import LocalServer
    from identiformer.explorer.texts import Texts

    with ExitStack() as stack:

        def start(model, text, pair=None, corpus=None, view=None, another=None, **options):
            texts = Texts(lambda name: another or model, [model.name, "another"], {model.name: model}, corpus, **options)
            return stack.enter_context(LocalServer(texts, {"text": text, "pair": pair, "model": model.name, "view": view}))

        yield start
