"""Compute, draw and grade every figure of a paper, or of several, for one model."""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from identiformer.engines import one_cluster
from identiformer.errors import InputError
from identiformer.figures.saving import draw
from identiformer.files import write_file
from identiformer.folders import ResumableFolder, same_command_continues, says_how_to_continue
from identiformer.models import Model
from identiformer.page.html import render
from identiformer.paper.computations.data import FULL, QUICK, Passage, find_data
from identiformer.paper.computations.study import PAPERS_MODEL, Study
from identiformer.paper.followups import PAPERS, find_paper
from identiformer.paper.recipes import choose_recipes
from identiformer.paper.recipes.declarations import BRUNNER, Grade, Paper, Recipe, grade_table
from identiformer.report.reports import picture
from identiformer.texts import Example

PAPER_RESPLITS = 10
PAPER_EXAMPLES = {"MRPC": 408, "CoLA": 1043, "MNLI": 500, "steps": 408, "neighbors": 408}
PAPER_ATTRIBUTED = {"MRPC": 408, "CoLA": 1043, "MNLI": 4000}
PAPER_TRAINED = {"MRPC": 3668, "CoLA": 8551}
"""Training examples for fine-tuning."""
ADAM_TO_CLOSED = 110
"""How many times longer Adam takes than the closed form to fit linear probes, measured over the layers of gte-small."""


@dataclass(frozen=True)
class Timed:
    """The duration of one computation."""

    name: str
    seconds: float
    papers: float
    """Seconds with the paper's settings, extrapolated from ours."""
    why: str
    """How the paper's settings differ."""
    figures: str
    """The figures that use the computation."""


def durations(study: Study, used: Mapping[str, Collection[str]]) -> list[Timed]:
    """The duration of every computation of a study. used: the computations that each figure uses."""
    return [
        Timed(name, seconds, *_with_papers_settings(name, seconds, study), _ranges([fig for fig in used if name in used[fig]]))
        for name, seconds in study.seconds.items()
    ]


def _ranges(figures: Sequence[str]) -> str:
    """List figures, three or more consecutive ones as a range: 3, 4, 26-37."""
    runs: list[list[str]] = []
    for figure in figures:
        follows = runs and figure.isdigit() and runs[-1][-1].isdigit() and int(figure) == int(runs[-1][-1]) + 1
        runs[-1].append(figure) if follows else runs.append([figure])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _with_papers_settings(name: str, seconds: float, study: Study) -> tuple[float, str]:
    kind, _, dataset = name.removesuffix("_mlp").partition("_")
    scale = study.scale
    if kind == "attribution" and dataset in PAPER_ATTRIBUTED:
        width = int(study.model.network.config.hidden_size)
        examples = PAPER_ATTRIBUTED[dataset] / (scale.attributed[dataset] or PAPER_ATTRIBUTED[dataset])
        more = f"exact Jacobians, {width} directions for our {scale.directions[dataset]}"
        return seconds * examples * width / scale.directions[dataset], more + _times(examples)
    if name.endswith("_mlp"):
        purpose = kind if kind in ("steps", "neighbors") else dataset
        examples = PAPER_EXAMPLES[purpose] / (scale.perceptron_examples[purpose] or PAPER_EXAMPLES[purpose])
        return seconds * examples * PAPER_RESPLITS / scale.perceptrons, f"{PAPER_RESPLITS} resplits" + _times(examples)
    if kind in ("identifiability", "transfer", "steps", "neighbors"):
        examples = PAPER_EXAMPLES[dataset] / (scale.identified[dataset] or PAPER_EXAMPLES[dataset])
        resplits = PAPER_RESPLITS / scale.resplits_for(kind)
        return seconds * examples * resplits * ADAM_TO_CLOSED, "linear probes by Adam" + _times(examples * resplits)
    if kind == "finetuned" and scale.trained is not None:  # for all tasks at once, whichever is needed first
        examples = sum(PAPER_TRAINED.values()) / (len(PAPER_TRAINED) * scale.trained)
        return seconds * examples, f"all training examples, {examples:.3g} times ours"
    return seconds, ""


def _times(factor: float) -> str:
    return "" if factor == 1 else f", {factor:.3g} times the examples and resplits"


@dataclass(frozen=True)
class Reproduction:
    """The page, the numbers of the figures on it, the grades, and why other figures are missing."""

    page: Path
    drawn: tuple[str, ...]
    missing: dict[str, str]
    grades: tuple[Grade, ...]


def reproduce(
    model: Model,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    figures: Sequence[str] | None = None,
    quick: bool = False,
    workers: int = 1,
    passage: str | Sequence[str] | None = None,
    pair: Sequence[str] | None = None,
    of: str = BRUNNER.key,
    progress: bool = False,
) -> Reproduction:
    r"""Compute, draw and grade the figures of a paper; computations that the folder already holds are reused.

    Parameters
    ----------
    model
        A loaded model. Numbers that the paper quotes are graded for bert-base-uncased only.
    data
        GLUE folder with MRPC, CoLA, MNLI and, for Figures 1 and 5, wiki/wiki.test.raw; or the name of GLUE on the hub, such as
        "nyu-mll/glue". Figures whose data are not there are left out and listed in `missing`.
    out
        Folder for the page, the figures, the grades and the results; a new one, or one of the same model, data and settings.
    figures
        Numbers of the figures to make, such as "2a"; "2" means 2a and 2b, "O1" is the first comparison of options, "B1" the
        first figure beyond the paper. All by default.
    quick
        Use a sample that takes minutes instead of hours.
    workers
        Processes that share texts and layers, by Ray if there are several, with one thread each. Results are identical to
        the bit for any number.
    passage
        Text of Figure 6 instead of the built-in one; or two texts, and the sentence of them whose rows are shown.
    pair
        Texts of Figures 19-25 instead of the first pair of MRPC.
    of
        The paper: "brunner2020", or one that followed it, "bhardwaj2021", "sun2021" or "pascual2021", which also need TREC, SST-2
        and ERASER's movies in the folder.
    progress
        Show progress bars.

    Returns
    -------
    Reproduction
        `page`, the path of page.html; `drawn`, the numbers of its figures; `missing`, the reason for each figure that could
        not be made; `grades`, one per claim, with `figure`, `says`, `paper`, `tolerance`, `ours` and `verdict`.

    Examples
    --------
    >>> import identiformer as idf
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     glue = Path(folder, "glue", "MRPC")
    ...     glue.mkdir(parents=True)
    ...     _ = (glue / "dev.tsv").write_text("sentence1\tsentence2\nHe left.\tHe went away.\n")
    ...     done = idf.reproduce(idf.load("minilm"), glue.parent, Path(folder, "out"), figures=["1b", "6"], quick=True)
    >>> done.drawn, done.missing["1b"].startswith("needs wiki/wiki.test.raw")
    (('6',), True)
    >>> done.grades[0].says, done.grades[0].verdict
    ('[CLS] and [SEP] vanish from A⊥ and remain in A∥', 'holds')
    """
    paper = find_paper(of)
    recipes = choose_recipes(None if figures is None else list(figures), paper)
    shown = Passage(*([passage] if isinstance(passage, str) else passage or ()))
    texts = Example(pair[0], pair[1] if len(pair) > 1 else None) if pair is not None else None
    scale = QUICK if quick else FULL
    study = Study(model, find_data(data), scale, Path(out).expanduser(), workers, progress, shown, texts)
    folder, settings = ResumableFolder(study.folder, subfolders=("results", "figures", "states")), _settings(study, paper)
    folder.check(settings)
    missing = {recipe.number: why for recipe in recipes if (why := recipe.why_missing(study)) is not None}
    graded: list[tuple[Recipe, list[Grade]]] = []
    used: dict[str, frozenset[str]] = {}
    with says_how_to_continue(partial(same_command_continues, study.folder)), folder.started(settings), one_cluster():
        (study.folder / "figures").mkdir(exist_ok=True)
        for recipe in recipes:
            if recipe.number in missing:
                continue
            study.used.clear()
            figure = recipe.render(study)
            for kind in ("svg", "png"):
                write_file(study.folder / "figures" / f"{recipe.number}.{kind}", draw(figure, kind))
            graded.append((recipe, [claim.grade(study) for claim in recipe.claims]))
            used[recipe.figure] = used.get(recipe.figure, frozenset()) | study.used
        page = write_page(gather(study, graded, missing, used, paper), study.folder)
    drawn, grades = tuple(recipe.number for recipe, _ in graded), tuple(grade for _, some in graded for grade in some)
    return Reproduction(page, drawn, missing, grades)


def _settings(study: Study, paper: Paper) -> dict[str, Any]:
    """What the results in the folder depend on."""
    return {
        **({} if paper is BRUNNER else {"of": paper.key}),
        "revision": study.model.revision,
        "scale": asdict(study.scale),
        "identiformer": version("identiformer"),
        "passage": None if study.passage.is_embedded else asdict(study.passage),
        "pair": None if study.pair is None else [study.pair.text, study.pair.pair],
        **study.data.hashes(paper.datasets),
    }


def gather(
    study: Study,
    graded: Sequence[tuple[Recipe, Sequence[Grade]]],
    missing: Mapping[str, str],
    used: Mapping[str, Collection[str]],
    paper: Paper = BRUNNER,
) -> dict[str, Any]:
    """All that the page shows. used: the computations that each figure uses."""
    verdicts = [grade.verdict for _, grades in graded for grade in grades]
    numbers = (
        f"Quoted numbers are the paper's for {PAPERS_MODEL}, and graded, because this is that model."
        if study.is_papers_model
        else f"Quoted numbers are the paper's for {PAPERS_MODEL}; this is another model, so they are shown without a grade."
        if paper is BRUNNER
        else f"The paper's own model is {paper.model}; its claims are graded, its numbers are not."
    )
    times = durations(study, used)
    spent, papers = (sum(getattr(time, name) for time in times) for name in ("seconds", "papers"))
    return {
        "title": paper.title,
        "opening": [
            f"Model {study.model_name}, {study.layers} layers; scale: {study.scale.name}.",
            f"Of {len(verdicts)} statements about the figures, {verdicts.count('holds')} hold for this model, "
            f"{verdicts.count('fails')} fail and {verdicts.count('undecided')} are undecided. Most are about a sign, an order or "
            f"the place of a maximum, in one run without error bars. {numbers}",
        ],
        "figures": [
            {
                "number": recipe.number,
                "heading": recipe.heading,
                "caption": recipe.caption(study),
                "table": recipe.table and asdict(recipe.table(study)),
                "grades": [asdict(grade) for grade in grades],
            }
            for recipe, grades in graded
        ],
        "missing": dict(missing),
        "times": [asdict(time) for time in times],
        "ending": f"The computations took {spent / 60:.0f} minutes."
        + (
            f" With the paper's settings they would take about {papers / 3600:.0f} hours at the same rates."
            if paper is BRUNNER
            else ""
        ),
    }


def write_page(findings: Mapping[str, Any], folder: Path) -> Path:
    """Write page.html with every figure and grade, grades.json, and findings.json with all that the page shows."""
    figures = findings["figures"]
    _write_json(folder / "grades.json", [grade for figure in figures for grade in figure["grades"]])
    _write_json(folder / "findings.json", findings)
    numbers = [figure["number"] for figure in figures]
    pictures = {number: picture((folder / "figures" / f"{number}.svg").read_bytes()) for number in numbers}
    grades = {figure["number"]: [Grade(**grade) for grade in figure["grades"]] for figure in figures}
    tables = {number: grade_table(some) for number, some in grades.items()}
    claims = grade_table(grade for some in grades.values() for grade in some)
    times = [
        (time["name"].replace("_", " "), time["figures"], f"{time['seconds']:.0f} s", f"{time['papers']:.0f} s", time["why"])
        for time in findings["times"]
    ]
    page = render("paper/page.html", **findings, claims=claims, pictures=pictures, tables=tables, durations=times)
    path = folder / "page.html"
    write_file(path, page.encode())
    return path


def _write_json(path: Path, content: Any) -> None:
    write_file(path, json.dumps(content, indent=2, ensure_ascii=False).encode())


SUMMARY = ("paper", "hold", "fail", "undecided", "another model", "missing figures")
VERDICTS = ("holds", "fails", "undecided", "another model")


def reproduce_papers(
    model: Model,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    of: Sequence[str] = tuple(PAPERS),
    **options: Any,
) -> dict[str, Reproduction]:
    """Compute, draw and grade the figures of several papers, each in its folder of `out`, and write one page for all.

    Parameters
    ----------
    model, data, out
        As in `reproduce`.
    of : sequence of str
        "brunner2020", "bhardwaj2021", "sun2021", "pascual2021"; all of them by default.
    **options
        Of `reproduce`: quick, workers, progress.

    Returns
    -------
    dict of str to Reproduction
        By paper. The page for all is out/page.html.

    Examples
    --------
    >>> import identiformer as idf
    >>> done = idf.reproduce_papers(idf.load("minilm"), "glue", "papers", quick=True)  # doctest: +SKIP
    """
    papers = [find_paper(key) for key in of]
    if not papers:
        raise InputError("expected at least one paper, got none.")
    folder = Path(out).expanduser()
    done = {paper.key: reproduce(model, data, folder / paper.key, of=paper.key, **options) for paper in papers}
    rows = [(paper.citation, *_counts(done[paper.key])) for paper in papers]
    sections = [
        {
            "title": paper.title,
            "citation": paper.citation,
            "page": f"{paper.key}/page.html",
            "claims": grade_table(done[paper.key].grades),
        }
        for paper in papers
    ]
    page = render(
        "paper/several.html", title="The paper and those that followed", summary_header=SUMMARY, rows=rows,
        sections=sections, opening=[f"Model {model.name}. Every claim is graded by a computation; each paper has a page."],
    )  # fmt: skip
    write_file(folder / "page.html", page.encode())
    return done


def _counts(done: Reproduction) -> tuple[str, ...]:
    verdicts = [grade.verdict for grade in done.grades]
    return (*(str(verdicts.count(verdict)) for verdict in VERDICTS), str(len(done.missing)))
