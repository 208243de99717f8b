"""Models fine-tuned for several tasks, each by a process of its own."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from identiformer.engines import Job, RayEngine, SerialEngine
from identiformer.models import Model
from identiformer.progress import work_bar
from identiformer.runs.finetuning_folder import FinetuningFolder
from identiformer.runs.worker import one_thread


@dataclass(frozen=True)
class Trainer:
    """Trains for one task at a time, on one thread: the same bits however many work."""

    model: Model
    data: str
    folders: dict[str, Path]
    limit: int | None
    progress: bool

    def __call__(self, task: str) -> None:
        # Only here: training classes take long to import.
        from identiformer.runs.finetuning import finetune

        with one_thread():
            finetune(self.model, task, self.data, out=self.folders[task], limit=self.limit, progress=self.progress)


def finetune_each(model: Model, data: str, folders: dict[str, Path], limit: int | None, workers: int, progress: bool) -> None:
    """Fine-tune for each task whose folder does not hold a finished model yet."""
    tasks = [task for task, folder in folders.items() if FinetuningFolder(folder).scores is None]
    several = min(workers, len(tasks)) > 1
    engine = RayEngine(workers) if several else SerialEngine()
    make_worker = partial(Trainer, model, data, folders, limit, progress and not several)
    with work_bar("fine-tuning, by task", progress and several) as bar:
        bar.expect(len(tasks))
        for _ in engine.map(Job(make_worker, range(len(tasks)), tasks.__getitem__, _alike, lambda _: None)):
            bar.advance(1)


def _alike(task: int) -> int:
    return 0
