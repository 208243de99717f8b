"""A bar for work whose amount may grow while it is done, with the time left."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn


@runtime_checkable
class WorkBar(Protocol):
    """Told how much work is to be expected, and how much of it is done."""

    def expect(self, amount: int) -> None: ...
    def advance(self, amount: int) -> None: ...


def bar_of(columns: Iterable[ProgressColumn], shown: bool) -> Progress:
    """A bar on standard error, gone in the end; a file or a pipe, where it could not go away again, gets none of it."""
    console = Console(stderr=True)
    watched = console.is_terminal or console.is_jupyter
    return Progress(*columns, console=console, transient=True, disable=not (shown and watched))


@contextmanager
def work_bar(what: str, shown: bool | WorkBar) -> Iterator[WorkBar]:
    """A bar on standard error, gone when the work is done; nothing where it is not to be shown; or the caller's own."""
    if isinstance(shown, WorkBar):
        yield shown
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with bar_of(columns, shown) as progress:
        task = progress.add_task(what, total=0)

        class Bar:
            def expect(self, amount: int) -> None:
                progress.update(task, total=(progress.tasks[0].total or 0) + amount)

            def advance(self, amount: int) -> None:
                progress.advance(task, amount)

        yield Bar()
