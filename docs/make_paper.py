"""Write docs/paper.md from what a run of `identiformer paper` left in its folder: python -m docs.make_paper FOLDER"""

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from identiformer.paper.claims import HEADER, Grade

HERE = Path(__file__).parent
NOTES = HERE / "paper_notes.toml"
"""Why what the paper says does not hold, a sentence for each figure and model."""

DIFFERENCES = """- Linear maps are found in closed form, on ten resplits, those of neighbors on three; Adam to
  convergence was held against it on one ([Token identifiability](token_identifiability.md)). MLPs are trained by Adam, as the
  paper does, with the step 1e-3 of its grid, on one resplit, and on fewer examples where there are many of them; each caption
  says on which.
- Attribution takes random directions instead of whole Jacobians: norms are estimated without bias, with some spread
  ([Hidden Token Attribution](token_attribution.md)). Of MNLI the first thousand examples are taken, where the
  paper takes four thousand.
- The paper's segments of Wikipedia are not public as text; those here are cut from WikiText-2 by the same procedure.
- Words are tagged by NLTK's tagger, where the paper took Stanford's: both give Penn tags.
- The text of Figure 6 is the one that the paper quotes; as quoted, its two words are 49 tokens apart, not 48.
- Models were fine-tuned on the first 2,000 examples of each task; the paper does not say how its own were.
- MRPC has 408 examples and 21,723 tokens, 53.2 an example, as the paper counts them; its mean length of 58, its longest of 92 and
  its 1.7 % of guessing do not follow from these (86 and 1.9 % do)."""


def page(findings: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    """The whole page as Markdown."""
    grades = [grade for figure in findings["figures"] for grade in figure["grades"]]
    failed = {f"{grade['figure']}: {grade['says']}": grade for grade in grades if grade["verdict"] == "fails"}
    if unexplained := [key for key in failed if key not in notes]:
        sys.exit(f"expected a sentence in {NOTES.name} for each of:\n" + "\n".join(unexplained))
    if needless := [key for key in notes if key not in failed]:
        sys.exit(f"expected sentences in {NOTES.name} only for what fails, not for:\n" + "\n".join(needless))
    why = [f"- **Figure {grade['figure']}**, {grade['says']}: {grade['ours']}. {notes[key]}" for key, grade in failed.items()]
    rows = [Grade(**grade).cells for grade in grades]
    times = [
        (t["name"].replace("_", " "), t["figures"], f"{t['seconds']:.0f}", f"{t['papers']:.0f}", t["why"])
        for t in findings["times"]
    ]
    return "\n\n".join(
        [
            "# The paper, computed anew",
            "Written by `python -m docs.make_paper FOLDER` from the folder of a run of `identiformer paper`.",
            *findings["opening"],
            "## Every grade",
            _table(HEADER, rows),
            "## What fails, and why",
            "\n".join(why) or "Nothing.",
            "## What differs from the paper",
            DIFFERENCES,
            "## The figures",
            *_figures(findings["figures"]),
            *_left_out(findings["missing"]),
            "## Time",
            findings["ending"],
            _table(("computation", "figures", "seconds", "by the paper's settings", "which are"), times),
        ]
    ) + "\n"  # fmt: skip


def _figures(figures: Iterable[Mapping[str, Any]]) -> list[str]:
    parts: list[str] = []
    for figure in figures:
        parts.append(f"**{figure['heading']}.** {figure['caption']}")
        if figure["table"]:
            parts.append(_table(figure["table"]["header"], figure["table"]["rows"]))
    return parts


def _left_out(missing: Mapping[str, str]) -> list[str]:
    if not missing:
        return []
    return ["## Left out", "\n".join(f"- Figure {number} {reason}." for number, reason in missing.items())]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("expected the folder of a run of `identiformer paper`.")
    found = json.loads((Path(sys.argv[1]) / "findings.json").read_text(encoding="utf-8"))
    reasons = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    (HERE / "paper.md").write_text(page(found, reasons), encoding="utf-8")
