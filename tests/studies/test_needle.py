"""The study of needles on a short text: bounds contain what they bound, and ablation of nothing changes nothing."""

import numpy as np
import pytest
import torch

from identiformer.texts import Example
from studies import needle as study
from studies.__main__ import main
from studies.tables import read_rows
from tests.models.families import SMALL, build

TEXT = "The boat left. The secret word of Clara is silver. It came back. The secret word of Clara is silver"


def short(_):
    first, last = TEXT.index("silver"), TEXT.rindex("silver")
    return Example(TEXT, evidence=((first, first + 6),), answer=(last, last + 6))


def test_heads_are_certified_ranked_and_ablated(minilm, monkeypatch, tmp_path, capsys):
    network = build("bert", {**SMALL, "vocab_size": len(minilm.tokenizer)})
    for part in (network, minilm.tokenizer):
        part.save_pretrained(tmp_path / "small")
    monkeypatch.setattr(study, "needle", short)
    monkeypatch.setattr(study, "ROWS", 2)
    main(["needle", "--model", str(tmp_path / "small"), "--examples", "2", "--out", str(tmp_path)])
    rows = read_rows(tmp_path / "needle-small.csv")
    heads = [row for row in rows if row["ranking"] == ""]
    assert len(heads) == 2 * 2 * 4
    for low, middle, high in (("mass_low", "mass", "mass_high"), ("contribution_low", "contribution", "contribution_high")):
        assert all(row[low] - 1e-6 <= row[middle] <= row[high] + 1e-6 for row in heads)
    ablated = [row for row in rows if row["ranking"] not in ("", "intact")]
    assert len(ablated) == 2 * (6 + study.DRAWS) * len(study.ABLATED)
    printed = capsys.readouterr().out
    assert "| small | 2 | certified contribution |" in printed
    assert (tmp_path / "needle.png").stat().st_size > 10_000


def test_the_needle_is_the_planted_sentence_and_recall_is_that_of_the_question(minilm):
    planted = study._plant(minilm, short(0), np.random.default_rng(0))
    tokens = minilm.tokens(planted.text).texts
    assert [tokens[position] for position in planted.needle] == ["the", "secret", "word", "of", "clara", "is", "silver", "."]
    assert not {*planted.rows} & {*planted.needle}
    assert planted.text.endswith("It came back.")

    @torch.no_grad()
    def vector(text):
        states = minilm.network(**minilm.encode(text, None, False).inputs).last_hidden_state[0]
        return states, torch.nn.functional.normalize(states.double().mean(0), dim=0)

    states, text = vector(planted.text)
    cosines = {name: float(text @ vector(f"What is the secret word of {name}?")[1]) for name in study.NAMES}
    others = np.mean([cosine for name, cosine in cosines.items() if name != "Clara"])
    assert planted.recall(states) == pytest.approx(cosines["Clara"] - others, abs=1e-5)


def test_rankings_start_with_the_largest_and_skip_what_is_undefined():
    numbers = {
        "mass": [0.1, 0.9, 0.5],
        "mass_low": [0.0, 0.2, 0.3],
        "contribution": [1, 2, 3],
        "contribution_low": [0.4, np.nan, 0.2],
        "weighted_mass": [0, 0, 0],
        "weighted": [0, 0, 0],
    }
    heads = [{"layer": 1, "head": head, **{name: numbers[name][head] for name in numbers}} for head in range(3)]
    orders = dict(list(study._rankings(heads, np.random.default_rng(0)))[:6])
    assert orders["raw mass"] == [(1, 1), (1, 2), (1, 0)]
    assert orders["certified contribution"] == [(1, 0), (1, 2), (1, 1)]
