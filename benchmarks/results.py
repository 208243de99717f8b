"""RESULTS.md: what each benchmark measured, with machine and versions, and the figures of it that the README quotes."""

import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
RESULTS, README = HERE / "RESULTS.md", HERE.parent / "README.md"
BEGIN, END = "<!-- performance: begin -->", "<!-- performance: end -->"
TITLE = """# Benchmark results

`make bench` writes this file, one section per benchmark; `python -m benchmarks NAME` replaces one section. Ratios compare both
sides in one run on one machine. Seconds and gigabytes depend on the machine, which each section names.
"""
HEADER = "| what | measured | promised | kept | detail |\n|---|---|---|---|---|"
QUOTED = {
    "minilm: effective and null matrices over a forward pass": "effective and null attention of all heads, compared with the "
    "model's own forward pass (MiniLM, 256 tokens)",
    "smollm2, 4,096 tokens, null mass of all heads: seconds": "seconds for the null mass of all 270 heads of SmolLM2 on "
    "4,096 tokens",
    "smollm2, 4,096 tokens, null mass of all heads: GB": "GB of memory for the same, the model included",
}
"""The rows that the README quotes, and what it says of each."""


@dataclass(frozen=True)
class Row:
    """One measured figure; without a promise it is for information."""

    what: str
    figure: float
    promised: str = ""
    kept: bool = True
    detail: str = ""

    @property
    def shown(self) -> str:
        """The figure with three digits."""
        return f"{self.figure:.3g}"

    def __str__(self) -> str:
        cells = self.what, self.shown, self.promised, "yes" if self.kept else "no", self.detail
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def machine() -> str:
    """The machine and the versions that figures depend on."""
    names = ("identiformer", "torch", "transformers", "numpy")
    versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]
    busy = f", {os.getloadavg()[0]:.1f} processes running before" if hasattr(os, "getloadavg") else ""
    return f"{_processor()}, {os.cpu_count()} cores{busy}, {_memory()}, {platform.system()}; {', '.join(versions)}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text()) if info.is_file() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _memory() -> str:
    if not hasattr(os, "sysconf"):
        return "unknown memory"
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def sections(text: str) -> dict[str, str]:
    """The sections of RESULTS.md by the name of their benchmark."""
    parts = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def with_section(text: str, name: str, rows: list[Row], where: str) -> str:
    """RESULTS.md with the section of one benchmark replaced or added, sections in alphabetical order."""
    body = "\n".join((where, "", HEADER, *map(str, rows)))
    kept = sections(text) | {name: body}
    return TITLE + "".join(f"\n## {each}\n\n{kept[each]}\n" for each in sorted(kept))


def figures(text: str) -> dict[str, str]:
    """What RESULTS.md says was measured, by row."""
    rows = (line.split(" | ") for line in text.splitlines() if line.startswith("| ") and " | " in line)
    return {cells[0].removeprefix("| "): cells[1] for cells in rows}


def quotation(results: str) -> str:
    """The table that the README quotes from RESULTS.md."""
    measured = figures(results)
    lines = [f"| {measured[row]} | {meaning} |" for row, meaning in QUOTED.items() if row in measured]
    return "\n".join([BEGIN, "| measured | what |", "|---|---|", *lines, END])


def with_quotation(readme: str, results: str) -> str:
    """The README with its quotation of RESULTS.md renewed."""
    return re.sub(f"{BEGIN}.*?{END}", lambda _: quotation(results), readme, flags=re.DOTALL)


def write(name: str, rows: list[Row], where: str) -> None:
    """Write the section of one benchmark, measured where `machine` said before it ran, and what the README quotes."""
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.is_file() else TITLE
    results = with_section(before, name, rows, where)
    RESULTS.write_text(results, encoding="utf-8")
    README.write_text(with_quotation(README.read_text(encoding="utf-8"), results), encoding="utf-8")
