"""Ray is started once for several maps, and stopped after the last."""

import pytest

from identiformer.engines import Job, RayEngine, one_cluster
from tests.engines.squares import Maker

ray = pytest.importorskip("ray")


def squares(numbers):
    return dict(RayEngine(2).map(Job(Maker(), numbers, lambda number: number, lambda number: number, lambda shards: None)))


@pytest.mark.slow
def test_ray_stays_until_the_end():
    with one_cluster():
        assert not ray.is_initialized(), "nothing was asked of it yet"
        assert squares([1, 2]) == {1: (1, "1"), 2: (4, "1")}
        node = ray.get_runtime_context().get_node_id()
        assert squares([3]) == {3: (9, "1")}
        assert ray.get_runtime_context().get_node_id() == node
    assert not ray.is_initialized()
    assert squares([4]) == {4: (16, "1")}
    assert not ray.is_initialized()
