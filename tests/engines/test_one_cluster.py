"""Ray is started once for several maps and stopped after the last."""

import pytest

from identiformer.engines import Job, RayEngine, one_cluster
from tests.engines.squares import Maker, make_node

ray = pytest.importorskip("ray")


def results(make, numbers):
    return dict(RayEngine(2).map(Job(make, numbers, lambda number: number, lambda number: number, lambda shards: None)))


@pytest.mark.slow
def test_ray_stays_until_the_end():
    with one_cluster():
        (node,) = set(results(make_node, [1, 2]).values())
        assert results(make_node, [3]) == {3: node}
        with pytest.raises(ArithmeticError):
            results(Maker(), [13])
        assert results(Maker(), [3]) == {3: (9, "1")}
    assert not ray.is_initialized()
    (other,) = results(make_node, [4]).values()
    assert other != node
