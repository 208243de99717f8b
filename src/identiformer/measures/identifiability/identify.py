"""All that is to be known of token identifiability in one model, kept in one folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

import xarray as xr

from identiformer.errors import InputError
from identiformer.folders import LOCK, locked
from identiformer.measures.identifiability.learning_curve import learning_curve
from identiformer.measures.identifiability.neighbors import token_neighbors
from identiformer.measures.identifiability.plan import Options
from identiformer.measures.identifiability.steps import token_steps
from identiformer.measures.identifiability.tokens import token_identifiability
from identiformer.measures.identifiability.transfer import token_transfer
from identiformer.models.model import Model
from identiformer.results import save_result
from identiformer.texts import Corpus, read_corpus

FURTHER: dict[str, Callable[..., xr.Dataset]] = {
    "transfer": token_transfer,
    "steps": token_steps,
    "neighbors": token_neighbors,
    "curve": learning_curve,
}
"""What can be asked beside the rates, by short names."""


def identify(
    model: Model,
    corpus: Corpus,
    out: str | os.PathLike[str],
    *,
    also: Sequence[str] = (),
    vocabulary: bool = False,
    **options: Unpack[Options],
) -> dict[str, xr.Dataset]:
    """Measure token identifiability, and what else is asked for, and keep it all in a folder.

    Hidden states are kept in the folder too: the same call again, after one that was stopped, or one that asks for more, does
    not run the model again. Results are written when all of them are computed, each whole or not at all, in place of older
    ones. Returns the results by the names of their measures.
    """
    unknown = [name for name in also if name not in FURTHER]
    if unknown:
        raise InputError(f"expected also {', '.join(FURTHER)}, got {', '.join(unknown)}.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"expected a folder to write to, but {folder} is a file; choose another.")
    examples = read_corpus(corpus, options.get("limit"))  # once: all results are of the same texts, and a pipe is read but once
    shared: Any = {"store": folder / "states", **options}
    with _held(folder):
        results = [token_identifiability(model, examples, vocabulary=vocabulary, **shared)]
        results += [FURTHER[name](model, examples, **shared) for name in also]
        for result in results:
            save_result(result, folder / f"{result.attrs['measure']}.zarr")
    return {result.attrs["measure"]: result for result in results}


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder, cleared of what a killed run has left; one that was made for nothing is removed again."""
    made = not folder.exists()
    try:
        with locked(folder, "states"):
            yield
    except BaseException:
        if made and [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()
        raise
