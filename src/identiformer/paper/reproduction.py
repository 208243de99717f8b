"""Every figure of the paper on one model, drawn and graded, from one call."""

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
from identiformer.paper.claims import Grade, grade
from identiformer.paper.computations.data import find_data
from identiformer.paper.computations.scale import FULL, QUICK
from identiformer.paper.computations.study import Study
from identiformer.paper.findings import gather
from identiformer.paper.page import write_page
from identiformer.paper.passage import Passage
from identiformer.paper.recipes.recipe import Recipe
from identiformer.paper.recipes.registry import choose_recipes, left_out
from identiformer.report.page import draw
from identiformer.texts import Example

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Reproduction:
    """What came out: the page, the grades, and the figures that could not be made."""

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
    """Compute, draw and grade the figures of the paper; what was computed before is found in the folder and not made again.

    data: a folder of GLUE with MRPC, CoLA, MNLI and, for Figures 1 and 5, wiki/wiki.test.raw; or GLUE's name on the hub, such
        as "nyu-mll/glue". What is not there costs the figures that need it, which are named.
    figures: only these, such as "2a"; "2" stands for 2a and 2b, "O1" is the first table of options, "B1" the first beyond.
    passage: the text of Figure 6, instead of the embedded one; or two texts, and the sentence of them whose rows are shown.
    pair: the texts of Figures 19-25, instead of the first of MRPC.
    quick: a sample that takes minutes. workers: processes among which texts and layers are shared, by Ray if there are several;
        each takes one thread, and the results are the same to the bit.
    """
    recipes = choose_recipes(None if figures is None else list(figures))
    read = Passage(*([passage] if isinstance(passage, str) else passage or ()))
    followed = Example(*pair) if pair is not None else None
    scale = QUICK if quick else FULL
    study = Study(model, find_data(data), scale, Path(out).expanduser(), workers, progress, read, followed)
    settings = _settings(study)
    missing = {recipe.number: why for recipe in recipes if (why := left_out(recipe, study)) is not None}
    drawn = [recipe for recipe in recipes if recipe.number not in missing]
    grades: list[Grade] = []
    rests: dict[str, frozenset[str]] = {}
    with _only_writer(study.folder, settings), one_cluster():
        for recipe in drawn:
            study.used.clear()
            _save(recipe, recipe.draw(study), study.folder / "figures")
            grades += [grade(recipe.number, claim, study) for claim in recipe.claims]
            rests[recipe.figure] = rests.get(recipe.figure, frozenset()) | study.used
        page = write_page(gather(study, drawn, missing, grades, rests), study.folder)
    return Reproduction(page, tuple(recipe.number for recipe in drawn), missing, tuple(grades))


def _settings(study: Study) -> bytes:
    """What the folder is to hold; one that holds something else is rejected."""
    folder, pair = study.folder, study.pair
    settings = {
        "revision": study.model.revision,
        "scale": asdict(study.scale),
        "identiformer": version("identiformer"),
        "passage": None if study.read.embedded else asdict(study.read),
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
