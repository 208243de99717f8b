"""Parts of one run that were computed on separate machines, put together."""

import os
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from identiformer.errors import InputError, RunError
from identiformer.folders import require_same_settings
from identiformer.runs.folder import folder_at
from identiformer.runs.opened import Run, open_run
from identiformer.runs.results import finish


def merge_runs(parts: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Run:
    """The run that the parts make up, the same to the bit as if it had been computed in one place.

    The parts must agree in everything but `part`, and together have every shard.
    """
    if not parts:
        raise InputError("expected the folders of parts to merge, got none.")
    folders = [folder_at(part) for part in parts]
    first, target = folders[0].settings(), folder_at(out)
    for folder in folders[1:]:
        require_same_settings(first.as_json(), replace(folder.settings(), part=first.part).as_json(), folders[0].path)
    target.check_free()
    settings = replace(first, part="1/1")
    holders = {shard: folder for folder in folders for shard in folder.sound(folder.settings())}
    missing = len(settings.shards) - len(holders)
    if missing:
        lacking = next(shard for shard in settings.shards if shard not in holders)
        raise RunError(
            f"expected all {len(settings.shards)} shards in the parts together, but {missing} are missing, such as number "
            f"{lacking}; finish each part with --resume, and name every part."
        )
    with target.locked():
        target.begin(settings, folders[0].provenance())
        for shard, folder in sorted(holders.items(), key=itemgetter(0)):
            result = folder.read_shard(settings, shard)
            assert result is not None
            target.write_shard(settings, shard, result)
        finish(target, settings, settings.shards)
    return open_run(target.path)
