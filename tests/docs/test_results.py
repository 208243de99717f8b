"""The README quotes what the benchmarks measured, and nothing else."""

import re

from benchmarks.results import BEGIN, END, QUOTED, README, RESULTS, TITLE, Row, figures, quotation, sections, with_section

ROWS = [Row("a ratio | of two", 0.31234, "≤ 0.35", True, "(256 tokens)"), Row("seconds", 12.0)]


def test_a_section_is_replaced_and_the_others_stay():
    text = with_section(TITLE, "svd", ROWS, "some machine")
    text = with_section(text, "costs", [Row("x", 1.0)], "another machine")
    again = with_section(text, "svd", [Row("a ratio", 0.5, "≤ 0.35", False)], "some machine")
    assert list(sections(again)) == ["costs", "svd"]
    assert "| a ratio | 0.5 | ≤ 0.35 | no |" in again
    assert "seconds" not in sections(again)["svd"]
    assert sections(again)["costs"] == sections(text)["costs"]
    assert figures(text)["seconds"] == "12"


def test_the_readme_quotes_the_results():
    quoted = re.search(f"{BEGIN}.*?{END}", README.read_text(encoding="utf-8"), re.DOTALL)
    results = RESULTS.read_text(encoding="utf-8")
    assert quoted is not None
    assert quoted[0] == quotation(results), "run `make bench`"
    numbers = re.findall(r"^\| ([\d.e+-]+) \|", quoted[0], re.MULTILINE)
    assert set(numbers) <= set(figures(results).values())


def test_a_number_that_was_not_measured_is_not_quoted():
    row = next(iter(QUOTED))
    assert "| 0.31 |" in quotation(with_section(TITLE, "minilm", [Row(row, 0.31)], "some machine"))
    assert quotation(TITLE).count("\n|") == 2  # the head of the table only
