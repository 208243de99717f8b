"""Probes: learned maps from hidden vectors back to the inputs at the same position."""

from identiformer.probes.closed_form import ClosedForm
from identiformer.probes.task import Split, Task, split_examples, task_of
from identiformer.probes.token_probe import Method, TokenProbe

__all__ = ["ClosedForm", "Method", "Split", "Task", "TokenProbe", "split_examples", "task_of"]
