"""Checkpoints of a training, of which the last whole one is kept."""

import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from identiformer.files import publish

WHOLE = "whole-"


def last_checkpoint(folder: Path) -> Path | None:
    """Where to go on; what was being written when a training was stopped is not whole, and does not count."""
    whole = sorted(folder.glob(f"{WHOLE}*"), key=lambda path: int(path.name.removeprefix(WHOLE)))
    return whole[-1] if whole else None


class KeepLast(TrainerCallback):
    """Names a checkpoint whole when it is, and removes all others."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        folder = Path(args.output_dir or "")
        made = folder / f"checkpoint-{state.global_step}"
        kept = folder / f"{WHOLE}{state.global_step}"
        publish(made, kept)
        for other in folder.iterdir():
            if other != kept:
                shutil.rmtree(other)
