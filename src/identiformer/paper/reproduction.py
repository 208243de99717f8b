"""Compute, draw and grade every figure of the paper for one model."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from matplotlib.figure import Figure

from identiformer.engines import one_cluster
from identiformer.errors import InputError, RunError, StoppedError
from identiformer.files import LOCK, SCRATCH, only_writer, remove_scratch, write_whole
from identiformer.models import Model
from identiformer.paper.computations.data import FULL, QUICK, Passage, find_data
from identiformer.paper.computations.study import Study
from identiformer.paper.page import gather, write_page
from identiformer.paper.recipes import choose_recipes
from identiformer.paper.recipes.declarations import Grade, Recipe
from identiformer.report.writing import draw
from identiformer.texts import Example

SETTINGS = "settings.json"


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
    progress: bool = False,
) -> Reproduction:
    """Compute, draw and grade the figures of the paper; computations that the folder already holds are reused.

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
    ...     _ = (glue / "dev.tsv").write_text("sentence1\\tsentence2\\nHe left.\\tHe went away.\\n")
    ...     done = idf.reproduce(idf.load("minilm"), glue.parent, Path(folder, "out"), figures=["1b", "6"], quick=True)
    >>> done.drawn, done.missing["1b"].startswith("needs wiki/wiki.test.raw")
    (('6',), True)
    >>> done.grades[0].says, done.grades[0].verdict
    ('[CLS] and [SEP] vanish from A⊥ and remain in A∥', 'holds')
    """
    recipes = choose_recipes(None if figures is None else list(figures))
    shown = Passage(*([passage] if isinstance(passage, str) else passage or ()))
    texts = Example(*pair) if pair is not None else None
    scale = QUICK if quick else FULL
    study = Study(model, find_data(data), scale, Path(out).expanduser(), workers, progress, shown, texts)
    settings = _settings(study)
    missing = {recipe.number: why for recipe in recipes if (why := recipe.why_missing(study)) is not None}
    graded: list[tuple[Recipe, list[Grade]]] = []
    used: dict[str, frozenset[str]] = {}
    with _only_writer(study.folder, settings), one_cluster():
        for recipe in recipes:
            if recipe.number in missing:
                continue
            study.used.clear()
            _save(recipe, recipe.render(study), study.folder / "figures")
            graded.append((recipe, [claim.grade(study) for claim in recipe.claims]))
            used[recipe.figure] = used.get(recipe.figure, frozenset()) | study.used
        findings = gather(study, graded, missing, used)
        page = write_page(findings, study.folder)
    return Reproduction(page, tuple(recipe.number for recipe, _ in graded), missing, findings.grades)


def _settings(study: Study) -> bytes:
    """What the folder is to hold; one that holds something else is rejected."""
    folder, pair = study.folder, study.pair
    settings = {
        "revision": study.model.revision,
        "scale": asdict(study.scale),
        "identiformer": version("identiformer"),
        "passage": None if study.passage.is_embedded else asdict(study.passage),
        "pair": None if pair is None else [pair.text, pair.pair],
        **study.data.hashes,
    }
    path = folder / SETTINGS
    if path.is_file():
        stored = json.loads(path.read_text(encoding="utf-8"))
        differing = sorted(name for name in {*stored, *settings} if stored.get(name) != settings.get(name))
        if differing:
            raise RunError(f"expected the settings of {folder}, but {', '.join(differing)} differ; use another folder.")
    elif folder.exists() and (not folder.is_dir() or any(map(_is_strange, folder.iterdir()))):
        raise InputError(f"expected a free folder or one of an earlier run, but {folder} holds something else.")
    return json.dumps(settings, indent=2).encode()


def _is_strange(path: Path) -> bool:
    """Whether it is something else than a run leaves that was stopped before it had settings."""
    return path.name != LOCK and not path.name.startswith(SCRATCH)


@contextmanager
def _only_writer(folder: Path, settings: bytes) -> Iterator[None]:
    """Hold the folder, cleared of what a killed run has left; a run that stops says how to continue."""
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        for place in (folder, *(folder / name for name in ("results", "figures", "states"))):
            remove_scratch(place)
        write_whole(folder / SETTINGS, settings)
        try:
            yield
        except StoppedError as error:
            rest = f"what is finished is kept in {folder}, so run the same command again to continue"
            raise StoppedError(error.reason, rest) from error


def _save(recipe: Recipe, figure: Figure, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for kind in ("svg", "png"):
        write_whole(folder / f"{recipe.number}.{kind}", draw(figure, kind))
