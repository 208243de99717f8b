from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import identiformer as idf
from studies.__main__ import main
from studies.agreement import interval
from studies.patched_runs import PatchedRuns, cosine_distance, divergence
from studies.tables import read_rows, write_rows
from studies.texts import read_texts
from studies.validation import _drawn_sink, report
from tests.glue import write_glue
from tests.models.families import SERVED, word_tokenizer


@pytest.fixture
def study(tiny_path, tmp_path, capsys):
    """Measure two pairs of a tiny corpus with a tiny model; returns the rows and what was printed."""
    data = write_glue(tmp_path / "glue", dev=2, train=1)

    def run(name):
        main([name, "--model", str(tiny_path), "--data", str(data), "--examples", "2", "--out", str(tmp_path)])
        (path,) = tmp_path.glob(f"{name}-*.csv")
        return read_rows(path), capsys.readouterr().out

    return run


def test_validation_moves_free_weight_without_moving_the_model(study):
    rows, table = study("validation")
    free = [row for row in rows if row["kind"] == "free"]
    assert all(row["patched"] < row["control"] / 10 for row in free)
    assert {"readable"} <= {row["kind"] for row in rows}
    assert all(row["control"] > 0 for row in rows)
    removed = [row for row in rows if row["kind"] == "readable"]
    assert all(row["patched_weight"] == pytest.approx(row["control_weight"]) for row in removed)
    assert all(abs(row["equal_shares"]) > 1e-3 for row in rows)
    assert "| readable: removed |" in table


def test_agreement_prefers_contributions(study):
    rows, table = study("agreement")
    assert {row["sources"] for row in rows} == {"all", "words"}
    assert all(-1 <= row[of] <= 1 for row in rows for of in ("raw", "effective", "contribution"))
    assert np.mean([row["contribution"] - row["raw"] for row in rows]) > 0
    assert len(table.strip().splitlines()) == 4


def test_tolerance_certifies_less_and_changes_more_the_larger_it_is(study, tmp_path):
    rows, table = study("tolerance")
    for text in {row["text"] for row in rows}:
        exact = [row for row in rows if row["dtype"] == "float32" and row["text"] == text]
        assert all(first["certified"] >= second["certified"] - 0.03 for first, second in pairwise(exact))
        assert exact[0]["change"] < exact[-1]["change"]
    assert all(row["output"] == "1 - cos" for row in rows)
    assert (tmp_path / "tolerance.png").stat().st_size > 10_000
    assert len(table.strip().splitlines()) == 2 + 12


def test_data_must_be_named(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("GLUE_DATA", raising=False)
    with pytest.raises(SystemExit):
        main(["agreement", "--model", "minilm", "--out", str(tmp_path)])
    assert "pass --data or set GLUE_DATA" in capsys.readouterr().err


def test_pairs_are_joined_for_wide_heads(tiny, tmp_path):
    data = write_glue(tmp_path, dev=4, train=1)
    config = tiny.backbone.config
    config.head_dim = 64
    try:
        wide = list(read_texts(tiny, data, 4))
    finally:
        del config.head_dim
    narrow = list(read_texts(tiny, data, 4))
    assert len(narrow) == 4
    assert len(wide) == 2
    assert wide[1].text.splitlines()[0] == f"{narrow[2].text} {narrow[2].pair}"


def test_patched_runs_agree_with_the_model(tiny):
    trace = tiny.trace("w1 w2 w3 w4")
    runs = PatchedRuns(tiny, trace)
    weights = trace.layer(2).recorded().weights[1].double()
    assert runs.change({(2, 1): weights}) < 1e-6
    uniform = torch.full_like(weights, 1 / len(weights))
    expected = tiny.rerun(trace, {(2, 1): uniform}).output.patched
    assert float((runs.output({(2, 1): uniform}) - runs.unpatched).abs().max()) == pytest.approx(expected, rel=1e-4)


def test_the_output_of_a_language_model_is_its_last_hidden_state():
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SERVED["llama"])).eval()
    model = idf.load(network, word_tokenizer())
    runs = PatchedRuns(model, model.trace("w1 w2 w3"))
    with torch.no_grad():
        expected = network(**model.encode("w1 w2 w3", None, False).inputs, output_hidden_states=True).hidden_states[-1][0]
    torch.testing.assert_close(runs.unpatched, expected.double(), atol=1e-6, rtol=1e-6)
    assert runs.logits(runs.unpatched).shape == (len(expected), network.config.vocab_size)


def test_distances_agree_with_torch():
    first, second = torch.randn(2, 5, 7, dtype=torch.float64)
    assert cosine_distance(first, second) == pytest.approx(float(1 - torch.cosine_similarity(first, second).mean()))
    expected = torch.nn.functional.kl_div(second.log_softmax(-1), first.softmax(-1), reduction="batchmean")
    assert divergence(first, second) == pytest.approx(float(expected))


def test_bootstrap_interval_contains_the_mean_and_shrinks_with_texts():
    scores = np.random.default_rng(3).normal(0.5, 0.1, 400)
    (low, high), (low_few, high_few) = interval(scores), interval(scores[:10])
    assert low < scores.mean() < high
    assert high - low < (high_few - low_few) / 3


def test_report_states_what_holds(tmp_path):
    cases = [("free", 0.001), ("free", 0.002), ("sink", 0.5), ("redistributed", 1.01), ("readable", 0.9), ("readable", 1.05)]
    rows = [{"text": 0, "kind": kind, "patched": ratio, "control": 1.0, "equal_shares": ratio - 0.9} for kind, ratio in cases]
    write_rows(tmp_path / "rows.csv", rows)
    lines = [line.split(" | ") for line in report({"tiny": read_rows(tmp_path / "rows.csv")}, tmp_path).splitlines()[2:]]
    assert [(line[2], line[-1].strip(" |")) for line in lines] == [
        ("free: moved", "yes"), ("sink: removed", "no"), ("sink: redistributed", "yes"), ("readable: removed", "no"),
        ("readable: removed, in heads that write", "yes"),
    ]  # fmt: skip


def test_a_text_without_sinks_in_the_drawn_rows_has_one_drawn(tiny):
    trace = tiny.trace("w1 w2 w3 w4 w5 w6")
    record = trace.layer(2).recorded()
    record.weights[1, 3] = torch.tensor([0.05] * 3 + [0.6] + [0.25 / 4] * 4)
    record.values[1, 3] *= 1e-3  # key 3 of one row takes most of the weight and writes next to nothing
    rows = list(_drawn_sink(0, trace, PatchedRuns(tiny, trace)))
    assert {(row["layer"], row["head"]) for row in rows} == {(2, 1)}
    removed, redistributed = rows
    assert removed["head_patched"] < 0.01 < removed["head_control"]
    assert redistributed["patched"] == pytest.approx(redistributed["control"], rel=0.01)
    assert redistributed["control"] > 1.1


def test_effects_predict_removals_better_than_attention(study):
    rows, table = study("effects")
    assert {row["target"] for row in rows} == {"embedding", "hidden"}
    for row in rows:
        assert row["effect"] > max(row["raw"], row["effective"])
        assert 0 <= row["idle_weight"] <= 1
    assert "idle by effect" in table
