"""Runs: measures over a corpus in a folder that survives being stopped at any moment."""

from identiformer.runs.finetuning import Finetuned, finetune
from identiformer.runs.merge import merge_runs
from identiformer.runs.opened import Run, open_run
from identiformer.runs.run import run

__all__ = ["Finetuned", "Run", "finetune", "merge_runs", "open_run", "run"]
