"""Take the screenshots of the explorer in a real browser: python -m docs.make_screenshots"""

import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import identiformer as idf
from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts
from identiformer.texts import PASSAGE

IMAGES = Path(__file__).parent / "images"
SHORT = (
    "The baker, who owned the only vessel with an engine, began to carry passengers between loaves. "
    "The islanders wrote to the minister about it, and the minister wrote back to them."
)
VIEW = "layer=3&head=8&query=33&words=true&special=false"


def take(page: Page, address: str) -> None:
    for theme in ("light", "dark"):
        page.goto("about:blank")
        page.goto(f"{address}#{VIEW}&theme={theme}")
        page.wait_for_selector(".map canvas")
        page.wait_for_selector(".finding:has-text('contributes')")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / f"explorer_{theme}.png")
    page.set_viewport_size({"width": 1440, "height": 1100})
    page.fill("textarea >> nth=0", SHORT)
    page.select_option(".masthead select", "light")
    page.click("button.primary")
    page.wait_for_selector("text=minilm, 39 tokens")
    page.goto(page.url.split("#")[0] + "#layer=5&head=2&query=20&words=false&special=true&theme=light")
    page.wait_for_timeout(500)
    page.click("text=Certify this row")
    page.wait_for_selector(".intervals")
    page.click("text=Run the model with it")
    page.wait_for_selector(".patched-run")
    page.locator(".row").screenshot(path=IMAGES / "explorer_certificate.png")
    page.click("button:text-is('Compute attribution')")
    page.wait_for_selector(".attribution-picture", timeout=300_000)
    page.locator(".attribution").screenshot(path=IMAGES / "explorer_attribution.png")


if __name__ == "__main__":
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("the screenshots need Chromium: apt-get install chromium")
    model = idf.load("minilm")
    texts = Texts(idf.load, [model.name, "smollm2"], {model.name: model})
    with LocalServer(texts, {"text": PASSAGE, "pair": None, "model": model.name}) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        take(browser.new_page(viewport={"width": 1440, "height": 960}), server.address)
        browser.close()
