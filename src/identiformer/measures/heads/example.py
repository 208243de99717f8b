"""The head whose map is shown as an example: it has readable weight as well as weight on attention sinks."""

import numpy as np
import xarray as xr

from identiformer.measures.heads.reading import HeadReading
from identiformer.measures.heads.table import HeadTable


def knows_own_content(result: xr.Dataset) -> bool:
    """Whether readable and mixed weight can be distinguished in all layers; in layer 1 they always can."""
    return bool(result.self_contribution.notnull().all())


def head_to_show(result: xr.Dataset) -> tuple[int, int]:
    """The layer and head whose map is shown as an example, from an `attention_reading`.

    The largest product of output share, readable share and sink share; where no head has a sink, of output share, readable
    share and the rest. Where self-contributions are unknown, the contributing share counts.
    """
    left = (result.readable if knows_own_content(result) else result.contributing).values
    scores = _scores(left, result.output_share.values, result.sink_share.values)
    layer, head = np.unravel_index(int(scores[0 if scores[0].max() > 0 else 1].argmax()), left.shape)
    return int(result["layer"][layer]), int(result["head"][head])


def _scores(left: np.ndarray, output_share: np.ndarray, sink_share: np.ndarray) -> np.ndarray:
    """With sinks, and where no head has any."""
    matters = np.nan_to_num(left * np.maximum(output_share, 0))
    return np.nan_to_num(np.stack([matters * sink_share, matters * (1 - np.nan_to_num(left, nan=1.0))]))


class ExampleHead:
    """The maps of the head to show, while readings arrive in any order."""

    def __init__(self, table: HeadTable) -> None:
        self._known = not bool(table.own.isnan().any())
        self._best: list[tuple[float, int, HeadReading] | None] = [None, None]
        self._order = {name: -index for index, name in enumerate(table.heads.names)}

    def add(self, reading: HeadReading) -> None:
        """Keep the reading of a head if it says more than those before."""
        left = reading.shares.readable if self._known else reading.shares.contributing
        shares = np.array([[float(left)], [reading.output_share], [reading.sinks()[0]]])
        place = self._order[reading.head.layer, reading.head.head]
        for index, score in enumerate(_scores(*shares)[:, 0].tolist()):
            best = self._best[index]
            if best is None or (score, place) > best[:2]:
                self._best[index] = score, place, reading

    @property
    def reading(self) -> HeadReading | None:
        """That head; None if there is none."""
        with_sink, without = self._best
        chosen = with_sink if with_sink is not None and with_sink[0] > 0 else without
        return None if chosen is None else chosen[2]
