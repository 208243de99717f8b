"""Write docs/paper.md from the folder of a run of `identiformer paper`: python -m docs.make_paper FOLDER [QUICK]

QUICK, the folder of a run with --quick, has pictures of figures that FOLDER has no pictures of; their captions say so.
"""

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from identiformer.paper.recipes.declarations import Grade, grade_table

HERE = Path(__file__).parent
PICTURES = HERE / "images" / "paper"
SHOWN = ("1a", "1b", "1c", "2a", "2b", "3", "3a", "3b", "4", "4a", "4b", "5a", "5b", "6")
"""The figures whose pictures the page shows: those of the paper's body and its passage."""
TRANSFER = """This is not a reproduction: it transfers the paper's claims to another model. The paper's model, bert-base-uncased,
was not available where this page was made; gte-small has as many layers and heads, half the width, and other training. A claim
that holds here does not confirm the paper's own figures, and one that fails does not contradict them."""
NOTES = HERE / "paper_notes.toml"
"""Why each claim that fails does so for this model, by figure and claim."""

DIFFERENCES = """- Linear probes are fitted in closed form, on ten resplits (neighbors: three);
  [Token identifiability](token_identifiability.md) compares them with Adam. MLP probes are trained by Adam, as in the paper,
  with the learning rate 1e-3 of its grid, on one resplit, and on fewer examples of large datasets; captions, and the
  table after the figures, say on which.
- Attribution uses random directions instead of full Jacobians: norms are estimated without bias, with some variance
  ([Hidden Token Attribution](token_attribution.md)). It uses the first thousand examples of MNLI; the paper uses four
  thousand.
- The paper's segments of Wikipedia are not public as text; ours are cut from WikiText-2 by the same procedure.
- Words are tagged by NLTK's tagger, in the paper by Stanford's; both use Penn tags.
- The text of Figure 6 is the one that the paper quotes; as quoted, its two words are 49 tokens apart, not 48.
- Models were fine-tuned on the first 2,000 examples of each task; the paper does not say how it fine-tuned its models.
- MRPC has 408 examples and 21,723 tokens, 53.2 per example, as the paper counts them. The paper's mean length of 58, longest
  text of 92 tokens and random rate of 1.7 % do not follow from these counts, which give 86 tokens and 1.9 %."""


def page(findings: Mapping[str, Any], notes: Mapping[str, str], quick: Mapping[str, str]) -> str:
    """The whole page as Markdown; quick has the captions of pictures from a run with --quick, by figure."""
    grades = [grade for figure in findings["figures"] for grade in figure["grades"]]
    failed = {f"{grade['figure']}: {grade['says']}": grade for grade in grades if grade["verdict"] == "fails"}
    if unexplained := [key for key in failed if key not in notes]:
        sys.exit(f"expected a note in {NOTES.name} for each claim that fails, got none for:\n" + "\n".join(unexplained))
    if needless := [key for key in notes if key not in failed]:
        sys.exit(f"expected notes in {NOTES.name} only for claims that fail, got notes for:\n" + "\n".join(needless))
    why = [f"- **Figure {grade['figure']}**, {grade['says']}: {grade['ours']}. {notes[key]}" for key, grade in failed.items()]
    times = [
        (t["name"].replace("_", " "), t["figures"], f"{t['seconds']:.0f}", f"{t['papers']:.0f}", t["why"])
        for t in findings["times"]
    ]
    claims = grade_table(Grade(**grade) for grade in grades)
    return "\n\n".join(
        [
            "# The claims of the paper, tested on another model",
            "Generated in a clone by `python -m docs.make_paper FOLDER`, from the folder of a run of `identiformer paper`.",
            TRANSFER,
            *findings["opening"],
            "## Every grade",
            _table(claims.header, claims.rows),
            "## What fails, and why",
            "\n".join(why) or "Nothing.",
            "## Differences from the paper",
            DIFFERENCES,
            "## The figures",
            *_figures(findings["figures"], quick),
            *_missing(findings["missing"]),
            "## Time",
            findings["ending"],
            _table(("computation", "figures", "seconds", "with the paper's settings", "which are"), times),
        ]
    ) + "\n"  # fmt: skip


def _figures(figures: Sequence[Mapping[str, Any]], quick: Mapping[str, str]) -> list[str]:
    """The figures that have a picture or a table, and what the others were computed from."""
    blocks: list[str] = []
    others: dict[str, list[str]] = {}
    for figure in figures:
        pictured = (PICTURES / f"{figure['number']}.png").is_file()
        if not pictured and not figure["table"]:
            others.setdefault(figure["caption"], []).append(figure["heading"].removeprefix("Figure "))
            continue
        blocks.append(f"**{figure['heading']}.** {figure['caption']}")
        if pictured:
            blocks.append(f"![{figure['heading']}]({PICTURES.relative_to(HERE)}/{figure['number']}.png)")
        if figure["number"] in quick:
            blocks.append(f"The picture is of a run with `--quick`: {quick[figure['number']]}")
        if figure["table"]:
            blocks.append(_table(figure["table"]["header"], figure["table"]["rows"]))
    if others:
        blocks.append("The other figures are graded above, and `identiformer paper` draws them. They were computed from:")
        blocks.append(_table(("figures", "computed from"), [("; ".join(names), caption) for caption, names in others.items()]))
    return blocks


def _missing(missing: Mapping[str, str]) -> list[str]:
    if not missing:
        return []
    return ["## Missing figures", "\n".join(f"- Figure {number} {reason}." for number, reason in missing.items())]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _copied(folder: Path, missing: Sequence[str]) -> list[str]:
    """The figures whose pictures a folder has; they are copied."""
    drawn = [number for number in missing if (folder / "figures" / f"{number}.png").is_file()]
    for number in drawn:
        (PICTURES / f"{number}.png").write_bytes((folder / "figures" / f"{number}.png").read_bytes())
    return drawn


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("expected the folder of a run of `identiformer paper`, and perhaps one of a run with --quick.")
    PICTURES.mkdir(parents=True, exist_ok=True)
    folder, *others = map(Path, sys.argv[1:])
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    shown, quick = _copied(folder, SHOWN), {}
    for other in others:
        captions = json.loads((other / "findings.json").read_text(encoding="utf-8"))["figures"]
        drawn = _copied(other, [number for number in SHOWN if number not in shown])
        quick |= {figure["number"]: figure["caption"] for figure in captions if figure["number"] in drawn}
    notes = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    (HERE / "paper.md").write_text(page(findings, notes, quick), encoding="utf-8")
