"""Runs: measures over a corpus, in a folder from which an interrupted run continues."""

from identiformer.runs.corpus_run import run
from identiformer.runs.finished_run import Run, open_run
from identiformer.runs.finishing import merge_runs

__all__ = ["Run", "merge_runs", "open_run", "run"]
