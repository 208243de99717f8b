"""Runs: measures over a corpus in a folder that survives being stopped at any moment."""

from identiformer.runs.corpus_run import run
from identiformer.runs.merge import merge_runs
from identiformer.runs.opened import Run, open_run

__all__ = ["Run", "merge_runs", "open_run", "run"]
