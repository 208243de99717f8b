"""Probes: maps from hidden vectors back to the inputs that they came from."""

from identiformer.probes.closed import ClosedForm
from identiformer.probes.fitting import Method
from identiformer.probes.splits import Split, split_examples
from identiformer.probes.task import Task, task_of
from identiformer.probes.token_probe import TokenProbe

__all__ = ["ClosedForm", "Method", "Split", "Task", "TokenProbe", "split_examples", "task_of"]
