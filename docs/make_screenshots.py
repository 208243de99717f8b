"""Take the screenshots of the explorer in a real browser: python -m docs.make_screenshots"""

import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import identiformer as idf
from docs.make_pages import TEXT
from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts

IMAGES = Path(__file__).parent / "images"
SHORT = (
    "The baker, who owned the only vessel with an engine, began to carry passengers between loaves. "
    "The islanders wrote to the minister about it, and the minister wrote back to them."
)
QUIET = "A patched run"
"""Part of the answer for a row, once everything about it is computed."""


def take(page: Page, address: str) -> None:
    for theme in ("light", "dark"):
        page.goto("about:blank")
        page.goto(f"{address}#theme={theme}")
        page.wait_for_selector(f".row-answer:has-text('{QUIET}')")
        page.wait_for_selector(".finding:has-text('is certified (present'):has-text('attributed to the token')", timeout=600_000)
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / f"explorer_{theme}.png")
    page.fill("textarea >> nth=0", SHORT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=minilm, 39 tokens")
    page.goto(page.url.split("#")[0] + "#layer=5&head=2&query=20&theme=light&open=attribution")
    page.wait_for_selector(f".row-answer:has-text('{QUIET}')")
    page.locator(".main").screenshot(path=IMAGES / "explorer_certificate.png")
    page.wait_for_selector(".attribution-picture", timeout=300_000)
    page.locator(".attribution").last.screenshot(path=IMAGES / "explorer_attribution.png")


if __name__ == "__main__":
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("the screenshots need Chromium: apt-get install chromium")
    model = idf.load("minilm")
    texts = Texts(idf.load, [model.name, "smollm2"], {model.name: model})
    with LocalServer(texts, {"text": TEXT, "pair": None, "model": model.name}) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        take(browser.new_page(viewport={"width": 1440, "height": 900}), server.address)
        browser.close()
