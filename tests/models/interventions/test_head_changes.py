"""Changes of single heads in resumed runs against one whole run per change."""

import pytest
import torch

from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.interventions import head_changes
from identiformer.models.interventions.head_changes import HeadChange, HeadChanges
from identiformer.models.replica import replica_of
from tests.measures.maps.tiny import tiny_subject
from tests.models.families import words
from tests.models.network_state import network_state


def expected_effect(passage, objective, change):
    """The effect of one change, by a whole run of the untouched network with it and one without."""
    calls = iter(range(100))

    def receive(call):
        output = call.output.clone()
        if next(calls) == change.layer - 1:
            output[0, change.query, change.head] += change.change
        return output

    replica, options = replica_of(passage.model.network), dict(objective.options)
    with torch.no_grad():
        unchanged = objective.outputs(passage.model.forward(replica, passage.batch.inputs, **options), 0)
    with recording(replica, WEIGHTS, receive):
        changed = objective.outputs(passage.model.forward(replica, passage.batch.inputs, **options), 0)
    if objective.is_number:
        return float(unchanged - changed)
    if objective.kind == "vectors":
        return float((1 - torch.nn.functional.cosine_similarity(unchanged, changed, dim=-1)).sum())
    before, after = unchanged.log_softmax(-1), changed.log_softmax(-1)
    return float((before.exp() * (before - after)).sum())


EXACT = {family: {"rel": 1e-6, "abs": 1e-11} for family in ("bert", "albert", "gpt2")}
ROUNDED = {"rel": 1e-3, "abs": 2e-6}
"""Other families compute norms or positions in float32."""
CASES = [
    *(
        (family, "CausalLM", target, True)
        for family in ("llama", "gpt2", "mistral", "gemma2", "gpt_oss")
        for target in (None, "next")
    ),
    ("bert", "", None, False),
    ("bert", "", "hidden", False),
    ("albert", "", "hidden", False),
    ("bert", "SequenceClassification", None, False),
    ("gpt_neox", "CausalLM", "next", True),
]


@pytest.mark.parametrize(("family", "task", "target", "cuts"), CASES)
def test_effects_are_those_of_whole_runs(family, task, target, cuts, monkeypatch):
    monkeypatch.setattr(head_changes, "TOKENS_AT_ONCE", 30)
    passage = tiny_subject(family, task, words(9), double=family != "gpt_oss")
    before = network_state(passage.model.network)
    objective = passage.objective(target)
    runs = HeadChanges(passage.model, passage.batch, "self", objective, passage.causal)
    assert runs.resumption.skips
    assert runs.resumption.cuts == cuts
    width, generator = passage.layers[0].values.shape[-1], torch.Generator().manual_seed(0)
    places = torch.cartesian_prod(torch.arange(1, 3), torch.arange(4), torch.arange(len(passage.tokens)))
    places = places[torch.randperm(len(places), generator=generator)[:12]].tolist()
    changes = [HeadChange(*place, torch.randn(width, generator=generator, dtype=torch.float64)) for place in places]
    effects = runs.effects(changes)
    assert network_state(passage.model.network) == before
    for change, effect in zip(changes, effects.tolist(), strict=True):
        assert effect == pytest.approx(expected_effect(passage, objective, change), **EXACT.get(family, ROUNDED))
    assert effects.abs().max() > 1e-4
    assert runs.rounding() < 1e-5


def test_positions_that_the_target_cannot_see_have_no_effect():
    passage = tiny_subject("llama", "CausalLM", words(9))
    runs = HeadChanges(passage.model, passage.batch, "self", passage.objective("next"), passage.causal)
    change = torch.ones(passage.layers[0].values.shape[-1], dtype=torch.float64)
    last = len(passage.tokens) - 1
    effects = runs.effects([HeadChange(2, 0, last - 1, change), HeadChange(2, 0, last, change)])
    assert abs(float(effects[0])) < 1e-6 < abs(float(effects[1]))


def test_a_family_that_cannot_be_resumed_is_run_whole(monkeypatch):
    """Whatever a resumed run does, the effects are those of whole runs."""
    from identiformer.models.interventions.resumption import Resumption

    monkeypatch.setattr(Resumption, "_repeated", lambda self, result: torch.zeros(()))
    passage = tiny_subject("llama", "CausalLM", words(9))
    objective = passage.objective(None)
    runs = HeadChanges(passage.model, passage.batch, "self", objective, passage.causal)
    assert not runs.resumption.skips
    assert not runs.resumption.cuts
    change = HeadChange(2, 1, 3, torch.ones(passage.layers[0].values.shape[-1], dtype=torch.float64))
    assert float(runs.effects([change])) == pytest.approx(expected_effect(passage, objective, change), rel=1e-3)
