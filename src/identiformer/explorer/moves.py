"""Move attention weight from one key to another, as a page requests it."""

from collections.abc import Mapping
from reprlib import repr as short  # of a value that may be large or deep
from typing import Any

from identiformer.errors import InputError
from identiformer.explorer.texts import OpenText
from identiformer.measures import move_weight
from identiformer.page.panels import moved_weight_panel
from identiformer.progress import WorkBar


def read_share(request: Mapping[str, Any]) -> float:
    """How much of a key's weight to move."""
    share = request.get("share")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"expected a share of a weight, above 0 and at most 1, got {short(share)}; reload the page.")
    return float(share)


def move(text: OpenText, row: tuple[int, int, int], keys: tuple[int, int], share: float, bar: WorkBar) -> dict[str, Any]:
    """Run the model with the weight of one row moved from the first key to the second."""
    bar.expect(1)
    passage = text.passage
    moved = move_weight(passage.model, passage, *row, *keys, share=share, kind=passage.kind)
    return moved_weight_panel(moved)
