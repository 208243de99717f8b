"""Make every report and figure of the gallery: python -m docs.make_gallery [FILE or FUNCTION …]

The result is build/gallery/gallery: open index.html, or put the folder on any web server. `make site` includes it.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from html import escape
from itertools import product
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from docs.gallery_entries import FIGURES, PRELUDE, REPORTS, FigureEntry
from identiformer.errors import InputError

HERE = Path(__file__).parent
OUT = HERE.parent / "build" / "gallery" / "gallery"
SUBJECTS = ("The baker", "The minister", "A young captain", "The old islander")
VERBS = ("carried", "found", "sold", "forgot")
REST = ("the letters between the islands.", "two loaves, and the engine stopped.", "the only boat that still ran.")


def sentences() -> list[str]:
    """Short English sentences for corpora."""
    return [f"{subject} {verb} {rest}" for rest, verb, subject in product(REST, VERBS, SUBJECTS)]


def paragraphs(count: int = 32) -> list[str]:
    """Texts of one to eight sentences; most have more tokens than a head of MiniLM has dimensions."""
    single = sentences()
    starts = range(0, 7 * count, 7)
    return [" ".join(single[(start + 11 * n) % len(single)] for n in range(1 + start // 7 % 8)) for start in starts]


def main(chosen: list[str]) -> None:
    mpl.use("agg")
    (OUT / "figures").mkdir(parents=True, exist_ok=True)
    os.chdir(OUT)
    for name, lines in (("sentences.txt", sentences()), ("paragraphs.txt", paragraphs())):
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for entry in REPORTS:
        if chosen and entry.file not in chosen:
            continue
        start = time.perf_counter()
        folder = Path(entry.file).parent
        if folder != Path():
            shutil.rmtree(folder, ignore_errors=True)
        if entry.command.startswith("identiformer "):
            words = shlex.split(entry.command)
            code = "from identiformer.cli import main; main()"
            subprocess.run([sys.executable, "-c", code, *words[1:]], check=True, stdout=subprocess.DEVNULL)
        else:
            exec(entry.command, {})
        print(f"{entry.file}: {Path(entry.file).stat().st_size / 1e6:.1f} MB, {time.perf_counter() - start:.0f} s", flush=True)
    names: dict = {}
    wanted = [entry for entry in FIGURES if not chosen or entry.function in chosen or "figures" in chosen]
    if wanted:
        for folder in ("figures_run", "figures_tags", "figures_comparison"):
            shutil.rmtree(folder, ignore_errors=True)
        exec(PRELUDE, names)
    for entry in wanted:
        try:
            _draw(entry, names)
            print(f"{entry.function}.png", flush=True)
        except InputError as error:  # a part-of-speech tagger needs data that not every machine has
            print(f"left out {entry.function}: {error}", flush=True)
    Path("index.html").write_text(index(), encoding="utf-8")


def _draw(entry: FigureEntry, names: dict) -> None:
    target = Path("figures") / f"{entry.function}.png"
    if entry.image is not None:
        target.write_bytes((HERE / entry.image).read_bytes())
        return
    *setup, last = entry.code.split("\n")
    exec("\n".join(setup), names)
    drawn = eval(last, names)
    figure: Figure = (drawn if hasattr(drawn, "get_figure") else drawn[0]).get_figure()
    figure.savefig(target, dpi=110, bbox_inches="tight")


def index() -> str:
    """One page with all that was made, which needs nothing but the folder it is in."""
    reports = "\n".join(
        f'<article><h3><a href="{entry.file}">{escape(entry.title)}</a></h3><p>{escape(entry.shows)}</p>'
        f'<pre tabindex="0">{escape(entry.command)}</pre></article>'
        for entry in REPORTS
        if Path(entry.file).is_file()
    )
    figures = "\n".join(
        f'<figure><img src="figures/{entry.function}.png" alt="{escape(entry.shows)}" loading="lazy">'
        f"<figcaption><code>idf.figures.{entry.function}</code>: {escape(entry.shows)}"
        f'<pre tabindex="0">{escape(entry.code)}</pre></figcaption></figure>'
        for entry in FIGURES
        if (Path("figures") / f"{entry.function}.png").is_file()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>identiformer: gallery</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}
html {{ color: #1a1a1a; background: #fff; }}
a {{ color: #0b57a4; }}
.cards {{ display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fill, minmax(26rem, 1fr)); }}
article, figure {{ border: 1px solid #ccc; border-radius: 6px; padding: 0.5rem 1rem; margin: 0; min-width: 0; }}
img {{ max-width: 100%; height: auto; }}
pre {{ background: #f4f4f4; padding: 0.5rem; overflow-x: auto; font-size: 0.85rem; }}
</style></head><body>
<header><h1>identiformer: gallery</h1>
<p>Real reports and figures. Each is one file that works offline, next to the command or the lines that made it.</p></header>
<main>
<h2>Reports</h2>
<div class="cards">
{reports}
</div>
<h2>Figures</h2>
<p>Each function takes a result and returns matplotlib axes. The code continues from these lines:</p>
<pre tabindex="0">{escape(PRELUDE)}</pre>
<div class="cards">
{figures}
</div>
</main>
</body></html>
"""


if __name__ == "__main__":
    main(sys.argv[1:])
