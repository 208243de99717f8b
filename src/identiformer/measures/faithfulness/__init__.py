"""Yardsticks: which map predicts what happens when something is removed, and what is known about a text."""

from collections.abc import Sequence

from identiformer.measures.faithfulness.evidence import EVIDENCE, RANDOM_WEIGHTS
from identiformer.measures.faithfulness.removal_at_input import REMOVAL_AT_INPUT
from identiformer.measures.faithfulness.removal_inside import REMOVAL_INSIDE
from identiformer.measures.faithfulness.yardstick import Yardstick
from identiformer.names import check_names

__all__ = ["YARDSTICKS", "Yardstick", "choose_yardsticks"]

YARDSTICKS = {one.name: one for one in (*REMOVAL_INSIDE, *REMOVAL_AT_INPUT, *EVIDENCE, *RANDOM_WEIGHTS)}


def choose_yardsticks(names: Sequence[str] | None) -> list[Yardstick]:
    """The yardsticks of these names; by default the cheap ones that remove something inside the model."""
    if names is None:
        return [yardstick for yardstick in REMOVAL_INSIDE if yardstick.cheap and yardstick.same_as is None]
    return [YARDSTICKS[name] for name in dict.fromkeys(check_names("yardsticks", names, tuple(YARDSTICKS)))]
