"""Baselines that do not look at the model: uniform, random and nearby keys, among those that a query sees."""

from identiformer.equations.maps.rows import nearby_rows, random_rows, uniform_rows
from identiformer.measures.maps.kind import MapKind

UNIFORM = MapKind(
    name="uniform",
    title="uniform baseline",
    formula="1/(number of visible keys)",
    paper="baseline",
    cost="0",
    compute=lambda passage: uniform_rows(passage.visible),
    needs="the attention mask",
)
RANDOM = MapKind(
    name="random",
    title="random baseline",
    formula="uniform on the simplex of the visible keys",
    paper="baseline",
    cost="0",
    compute=lambda passage: random_rows(passage.visible, passage.seed),
    needs="the attention mask",
)
DISTANCE = MapKind(
    name="distance",
    title="distance baseline",
    formula="1/(1 + |i - j|), as shares of the visible keys",
    paper="baseline",
    cost="0",
    compute=lambda passage: nearby_rows(passage.visible),
    needs="the attention mask",
)
