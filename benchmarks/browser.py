"""How long a user waits in a real browser: a first view, its first row, all heads, another head, and frames under the mouse."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import identiformer as idf
from benchmarks.harness import SHARED, bare_pass, report
from benchmarks.prose import prose
from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import Texts
from identiformer.models import Model
from identiformer.report import write_report
from identiformer.texts import PASSAGE

BESIDE = SHARED / "models" / "gte-small"
TIMES = 5
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DRAWN = "() => performance.getEntriesByType('mark').filter(mark => mark.name.startsWith('drawn')).at(-1)?.startTime"
# The gaps between frames, while they are collected.
FRAMES = """() => {
  window.gaps = [];
  let last = performance.now();
  const tick = (now) => { window.gaps.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


def run() -> None:
    """Print the times to open pages, and to respond on them."""
    program = shutil.which("chromium")
    if program is None:
        print("---- browser: needs Chromium, which is not here")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(600_000)
        minilm = idf.load("minilm")
        _first_view(page, minilm)
        _report(page, minilm, 128, Path(folder))
        if BESIDE.is_dir():
            _report(page, idf.load(BESIDE), 512, Path(folder))
        _long(page)
        browser.close()


@contextmanager
def _served(model: Model, text: str) -> Iterator[str]:
    texts = Texts(lambda name: model, [model.name], {model.name: model})
    with LocalServer(texts, {"text": text, "pair": None, "model": model.name}) as server:
        yield server.address


def _first_view(page: Any, model: Model) -> None:
    """The embedded passage: its sentence and first map, the bounds of its first row, and the categories of all heads."""
    views, rows = [], []
    with _served(model, PASSAGE) as address:
        for _ in range(TIMES):
            page.goto("about:blank")
            start = time.monotonic()
            page.goto(address)
            page.wait_for_selector(".finding:has-text('%')")
            page.wait_for_selector(".map canvas")
            views.append(time.monotonic() - start)
            page.wait_for_selector(".row-answer:has-text('patched run')")
            rows.append(time.monotonic() - start - views[-1])
        page.wait_for_selector("text=reading all heads")
        page.wait_for_selector("text=reading all heads", state="detached")
        whole = time.monotonic() - start
    what = f"{model.name}: {model.length(PASSAGE)} tokens, from the server"
    report(f"{what}, first view with the text's sentence", statistics.median(views), 2, True, "s")
    report(f"{what}, first row certified after that", statistics.median(rows), 2, True, "s")
    report(f"{what}, categories of all heads", whole, 60, True, "s")


def _report(page: Any, model: Model, tokens: int, folder: Path) -> None:
    passage = idf.Passage.of(model, prose(model.tokenizer, tokens))
    path = write_report(idf.read(model, passage, certify=False), folder / f"{tokens}.html", passage)
    first, heads, layers = [], [], []
    for _ in range(TIMES):
        page.goto("about:blank")
        page.goto(f"file://{path}#layer=2&head=0")
        page.wait_for_selector(".map canvas")
        first.append(page.evaluate(DRAWN) / 1000)
        page.wait_for_timeout(500)
        heads.append(_change(page, "]"))
        layers.append(_change(page, "}"))
    gaps = _hover(page)
    what = f"{Path(model.name).name}: report of {len(passage.tokens)} tokens"
    report(f"{what}, size", path.stat().st_size / 1e6, 5 if tokens == 128 else 15, True, "MB")
    report(f"{what}, first map", statistics.median(first), 1, True, "s")
    report(f"{what}, another head", 1000 * statistics.median(heads), 100, True, "ms")
    report(f"{what}, another layer", 1000 * statistics.median(layers), 100, True, "ms")
    late = sorted(gaps)[int(0.95 * len(gaps))]
    report(f"{what}, a frame while the mouse moves", statistics.median(gaps), 17, True, f"ms; 95 in 100 within {late:.1f}")


def _change(page: Any, key: str) -> float:
    """Seconds from a key press to the map that it selects."""
    before = page.evaluate(DRAWN)
    page.evaluate(
        "() => addEventListener('keydown', () => { window.pressed = performance.now(); }, { once: true, capture: true })"
    )
    page.keyboard.press(key)
    while (after := page.evaluate(DRAWN)) == before:
        time.sleep(0.02)
    return (after - page.evaluate("() => window.pressed")) / 1000


def _hover(page: Any) -> list[float]:
    box = page.locator(".stack").first.bounding_box()
    page.evaluate(FRAMES)
    for step in range(240):
        share = step / 240
        page.mouse.move(box["x"] + share * box["width"], box["y"] + (0.5 + 0.4 * (step % 7) / 7) * box["height"])
    return page.evaluate("() => window.gaps.slice(2)")


def _long(page: Any) -> None:
    """4,096 tokens, of which the page fetches the rows in view."""
    model = idf.load("smollm2")
    text = prose(model.tokenizer, 4096)
    forward = bare_pass(model, text, use_cache=False)
    start = time.monotonic()
    forward()
    bare = time.monotonic() - start
    fetched: list[int] = []
    page.on(
        "response",
        lambda response: fetched.append(int(response.headers["content-length"])) if "/layers/" in response.url else None,
    )
    with _served(model, text) as address:
        start = time.monotonic()
        page.goto(f"{address}#layer=2&head=0")
        page.wait_for_selector(".map canvas")
        opened = time.monotonic() - start
        head = _change(page, "]")
        window = _window(page)
    detail = f"{opened:.0f} s; another head {1000 * head:.0f} ms, other rows {1000 * window:.0f} ms, {max(fetched) / 1e6:.2f} MB"
    report(f"smollm2: {model.length(text)} tokens opened, over the bare pass", opened / bare, 3, True, detail)


def _window(page: Any) -> float:
    """Seconds until rows that were not in view are drawn."""
    before, start = page.evaluate(DRAWN), time.monotonic()
    page.locator(".token").last.click()
    while page.evaluate(DRAWN) == before:
        time.sleep(0.02)
    return time.monotonic() - start
