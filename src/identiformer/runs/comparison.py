"""Compare maps over a corpus: which of them predicts what happens when something is removed."""

import csv
import io
import os
from collections.abc import Sequence

from identiformer import models, runs
from identiformer.files import write_file
from identiformer.options import DIRECTIONS, WEIGHTS_BUDGET
from identiformer.runs.corpus_run import run
from identiformer.texts import Corpus

FAITHFULNESS, TABLE = "faithfulness", "table.csv"


def compare(
    corpus: Corpus,
    model: "str | os.PathLike[str] | models.Model",
    maps: Sequence[str] | None = None,
    yardsticks: Sequence[str] | None = None,
    *,
    out: str | os.PathLike[str],
    engine: str = "serial",
    workers: int = 1,
    address: str | None = None,
    limit: int | None = None,
    max_length: int | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    corpus_format: str | None = None,
    chat: bool = False,
    system: str | None = None,
    generate: int | None = None,
    directions: int = DIRECTIONS,
    seed: int = 0,
    resume: bool = False,
    keep_going: bool = False,
    device: str = "cpu",
    dtype: str = "auto",
    memory: int | str = WEIGHTS_BUDGET,
    allow_pickle: bool = False,
    progress: str = "none",
) -> "runs.Run":
    """Judge maps by yardsticks over a corpus, in a folder from which an interrupted comparison continues.

    Parameters
    ----------
    corpus : str, path or sequence
        As in `run`.
    model : str, path or Model
        As in `load`, or a loaded model.
    maps : sequence of str, optional
        Names of maps, which `docs/maps.md` lists. By default all cheap ones that the model supports; the attribute `unsupported`
        of the result names the others, with the reason.
    yardsticks : sequence of str, optional
        Names of yardsticks, which `docs/comparing_maps.md` lists. By default those that remove values or edges inside the model
        and measure the outputs of heads and layers.
    out : str or path
        The folder of the comparison.
    engine, workers, address, limit, max_length, text_column, pair_column, corpus_format
        As in `run`.
    chat, system, generate, directions, seed, resume, keep_going
        As in `run`.
    device, dtype, memory, allow_pickle, progress
        As in `run`.

    Returns
    -------
    Run
        With the result `run["faithfulness"]`. `score` (map, yardstick), `score_low` and `score_high`: the mean over layers and
        examples with its 95% bootstrap interval over examples. `layer_score` (map, yardstick, layer), `spearman_score`,
        `signed_score` and `difference` (map, yardstick), the paired difference to raw attention, have intervals too.
        `explanation_score` and `explanation_absolute_score` (explanation, explanation_yardstick): the same of explanations of the
        output. `example_score` (example, map, yardstick) and `example_explanation_score`: one by one. `tokens` (example) and
        `rank` (example, layer), the smallest rank of the values of a head; `short_share` (): the share of texts with no more
        tokens than that in every layer. `equal_to_raw` (map, layer): the share of texts in which a map is raw attention. The
        folder also holds table.csv and figures.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     done = compare(["A ferry is a boat."], "minilm", ["raw", "norm_layer"], ["value_zeroing"], out=f"{folder}/run")
    >>> done["faithfulness"].score.dims
    ('map', 'yardstick')
    """
    done = run(
        corpus, model, [FAITHFULNESS], out=out, engine=engine, workers=workers, address=address, limit=limit,
        max_length=max_length, text_column=text_column, pair_column=pair_column, corpus_format=corpus_format,
        chat=chat, system=system, generate=generate, directions=directions, seed=seed, maps=maps,
        yardsticks=yardsticks, resume=resume, keep_going=keep_going, device=device, dtype=dtype,
        memory=memory, allow_pickle=allow_pickle, progress=progress,
    )  # fmt: skip
    if FAITHFULNESS in done.results:  # it is not if every example failed
        from identiformer.readings.comparison import comparison_table

        rows = comparison_table(done.results[FAITHFULNESS])
        columns = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_file(done.path / TABLE, text.getvalue().encode())
    return done
