"""All measures of token identifiability of one model and corpus, stored in one folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import xarray as xr

from identiformer.errors import InputError
from identiformer.folders import LOCK, locked, same_command_continues, says_how_to_continue
from identiformer.measures.identifiability.experiment import Options
from identiformer.measures.identifiability.tokens import token_identifiability
from identiformer.measures.identifiability.variations import learning_curve, token_neighbors, token_steps, token_transfer
from identiformer.models.model import Model
from identiformer.results import save_result
from identiformer.texts import Corpus, read_corpus

FURTHER: dict[str, Callable[..., xr.Dataset]] = {
    "transfer": token_transfer,
    "steps": token_steps,
    "neighbors": token_neighbors,
    "curve": learning_curve,
}


def identify(
    model: Model,
    corpus: Corpus,
    out: str | os.PathLike[str],
    *,
    also: Sequence[str] = (),
    vocabulary: bool = False,
    **options: Unpack[Options],
) -> dict[str, xr.Dataset]:
    """Measure token identifiability and its variations, and store everything in a folder.

    The folder also keeps the hidden states, so that a second call, after an interruption or with more measures, does not run
    the model again. Results replace older ones when all of them are computed.

    Parameters
    ----------
    model, corpus, vocabulary, **options
        As in `token_identifiability`.
    out : path
        The folder to write.
    also : sequence of {"transfer", "steps", "neighbors", "curve"}
        Further measures: `token_transfer`, `token_steps`, `token_neighbors`, `learning_curve`.

    Returns
    -------
    dict of str to xarray.Dataset
        The results by measure, each as its function returns it.

    Examples
    --------
    >>> import tempfile
    >>> import identiformer as idf
    >>> texts = [f"He ate {number} pies." for number in range(4)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     list(idf.identify(idf.load("minilm"), texts, folder, also=["steps"], methods=["naive l2"], resplits=1))
    ['token_identifiability', 'token_steps']
    """
    unknown = [name for name in also if name not in FURTHER]
    if unknown:
        raise InputError(f"expected also= to be among {', '.join(FURTHER)}, got {', '.join(unknown)}.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"expected a folder to write to, but {folder} is a file; choose another.")
    examples = read_corpus(corpus, options.get("limit"))  # once, so that all results are of the same texts, even from a pipe
    shared: Any = {"store": folder / "states", **options}
    with says_how_to_continue(partial(same_command_continues, folder)), _writing_to(folder):
        results = [token_identifiability(model, examples, vocabulary=vocabulary, **shared)]
        results += [FURTHER[name](model, examples, **shared) for name in also]
        for result in results:
            save_result(result, folder / f"{result.attrs['measure']}.zarr")
    return {result.attrs["measure"]: result for result in results}


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    """Lock a folder and clear leftover temporary files; on failure, remove it again if it is new and empty."""
    new = not folder.exists()
    try:
        with locked(folder, "states"):
            yield
    except BaseException:
        if new and [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()
        raise
