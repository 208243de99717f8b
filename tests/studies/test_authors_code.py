import pytest
import torch

import identiformer as idf
from studies.authors_code import COMPARISONS, authors_definitions, compare


def test_only_the_named_definitions_are_executed(tmp_path):
    file = tmp_path / "theirs.py"
    file.write_text("import no_such_library\n\ndef twice(x: NoSuchType):\n    return 2 * torch.tensor(x) + offset\n")
    assert authors_definitions(file, "twice", offset=1).twice(3) == 7


def test_differences_are_relative_to_the_largest_score_of_the_authors(tiny, monkeypatch):
    def theirs(_, model, text):
        yield "raw", 1.25 * torch.tensor(idf.maps(model, text, kinds=["raw"]).score.values[0])

    monkeypatch.setitem(COMPARISONS, "fake", (theirs, lambda: (tiny, "w1 w2 w3")))
    ((name, difference),) = compare(None, "fake")
    assert name == "raw"
    assert difference == pytest.approx(0.2)


def test_explanations_are_compared_too(tiny):
    def theirs(_, model, text):
        yield "rollout:raw", 2 * torch.tensor(idf.maps(model, text, kinds=["rollout:raw"]).importance.values[0])

    assert list(compare(None, "fake", {"fake": (theirs, lambda: (tiny, "w1 w2 w3"))})) == [("rollout:raw", 0.5)]


def test_comparisons_of_explanations_are_with_registered_ones():
    from studies import authors_code_output

    model, text = authors_code_output.GPT2()
    target = authors_code_output.subject_of(model, text).target
    assert (target.kind, len(target.positions)) == ("token", 1)
    assert {"rollout", "chefer", "alti_logit", "decompx", "attnlrp"} <= authors_code_output.COMPARISONS.keys()
