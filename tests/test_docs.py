"""Pages that are made from runs say what a run says."""

import importlib.util
import re
from pathlib import Path

import matplotlib as mpl
import pytest
import xarray as xr

from docs.make_pages import variants_page

DOCS = Path(__file__).parents[1] / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_the_table_of_variants_is_what_a_run_gives(minilm):
    made, kept = variants_page(minilm), (DOCS / "variants.md").read_text(encoding="utf-8")
    assert NUMBER.sub("#", made) == NUMBER.sub("#", kept), "run `make docs`"
    for ours, theirs in zip(NUMBER.findall(made), NUMBER.findall(kept), strict=True):
        assert float(ours) == pytest.approx(float(theirs), abs=0.011), "run `make docs`"


def test_every_link_between_pages_leads_somewhere():
    root = DOCS.parent
    for page in (root / "README.md", *DOCS.glob("*.md"), root / "benchmarks" / "README.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_what_is_handed_to_other_tools(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "interoperability.md").read_text(encoding="utf-8"), re.DOTALL)
    wanted = [re.findall(r"from (bertviz|inseq)", block) for block in blocks]
    for block, packages in zip(blocks, wanted, strict=True):
        if all(importlib.util.find_spec(package) for package in packages):
            exec(block, names)
    assert [len(packages) for packages in wanted] == [0, 0, 1, 2, 0]
    with xr.open_dataset("maps.nc", engine="scipy") as kept:
        assert kept.effective.equals(names["maps"].effective)


def test_every_measure_has_a_page():
    import identiformer.measures as measures

    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS.parent / "README.md", *DOCS.glob("*.md")))
    told = (
        "token_identifiability",
        "token_transfer",
        "token_steps",
        "token_neighbors",
        "learning_curve",
        "value_zeroing",
        "certified_share",
    )
    assert set(told) <= set(measures.__all__)
    for name in (*told, "identiformer identify"):
        assert name in pages, name


def test_the_adapter_of_a_model_of_ones_own_works_as_written():
    from tests.models.families import word_tokenizer

    written = re.search(r"```python\n(.*?)```", (DOCS / "models.md").read_text(encoding="utf-8"), re.DOTALL)
    names = {"tokenizer": word_tokenizer(), "__name__": "mine"}
    exec(written[1], names)
    model, trace, result = names["model"], names["trace"], names["result"]
    assert result.raw.shape == (2, 4, 12, 12)
    assert int(result.nullity.max()) == 4
    layer = trace.layer(1)
    assert model.rerun(trace, {(1, 0): layer.weights[0]}).output.patched < 1e-6
    assert layer.projection is not None
    assert layer.value_bias is not None


def test_the_table_of_models_lists_every_architecture_and_is_what_was_found():
    import json

    from docs.make_models import TABLE, models_table
    from identiformer.support.verification import RECORD, known_support

    found = known_support()
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert [each.architecture for each in found] == [each["architecture"] for each in record["architectures"]], "run `make docs`"
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    assert page.partition(TABLE)[2] == models_table(found, record["transformers"]).partition(TABLE)[2], "run `make docs`"
    assert sum(each.verified for each in found) >= 150
    assert all(reason == reason.strip() for each in found for reason in each.reasons.values())


def test_the_page_of_the_paper_has_a_sentence_for_each_failure_and_for_nothing_else():
    from docs.make_paper import page

    graded = {"figure": "2a", "says": "it falls", "paper": None, "tolerance": None, "ours": "1 2 %", "verdict": "fails"}
    figure = {"number": "2a", "heading": "Figure 2a. Rates", "caption": "m.", "table": None, "grades": [graded]}
    found = {"opening": ["Model m."], "figures": [figure], "missing": {"12": "needs data"}, "times": [], "ending": "No time."}
    written = page(found, {"2a: it falls": "It rises."})
    assert "- **Figure 2a**, it falls: 1 2 %. It rises." in written
    assert "- Figure 12 needs data." in written
    for notes in ({}, {"2a: it falls": "It rises.", "3: it rises": "It falls."}):
        with pytest.raises(SystemExit, match="expected"):
            page(found, notes)


def test_the_page_of_the_paper_explains_what_its_grades_say_fails():
    import tomllib

    written = (DOCS / "paper.md").read_text(encoding="utf-8")
    failed = [line for line in written.splitlines() if line.startswith("|") and line.endswith("| fails |")]
    notes = tomllib.loads((DOCS / "paper_notes.toml").read_text(encoding="utf-8"))
    assert len(failed) == len(notes), "run `python -m docs.make_paper FOLDER`"
    assert all(note in written for note in notes.values()), "run `python -m docs.make_paper FOLDER`"
