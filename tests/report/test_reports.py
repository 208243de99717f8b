"""The report is one file that works offline, and token text in it is data."""

import base64
import re
from dataclasses import replace

import pytest

import identiformer as idf
from identiformer.errors import InputError
from identiformer.readings.inspection import Received
from identiformer.report import render_report, write_report
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def trace():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer()).trace(words(20))


@pytest.fixture(scope="module")
def inspection(trace):
    return idf.inspect_trace(trace)


def test_the_page_is_complete_and_needs_no_network(inspection):
    page = render_report(inspection)
    assert len(re.findall("<img ", page)) == 1 + len(inspection.shown)
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "<script" not in page
    for sentence in inspection.sentences():
        assert sentence.split(":")[0] in page
    picture = base64.b64decode(re.findall(r"base64,([^\"]+)", page)[1]).decode()
    assert all(title in picture for title in ("raw attention", "effective", "null"))


def test_with_the_trace_the_report_is_interactive_and_still_complete(inspection, trace):
    page = render_report(inspection, trace)
    assert len(re.findall('id="identiformer-layer-[0-9]+"', page)) == len(trace.stack().layers)
    assert re.findall(r'(?:src|href)="(?!data:|#)', page) == []
    for sentence in inspection.sentences():
        assert sentence.split(":")[0] in page
    for head in inspection.shown:
        assert f'href="#layer={head.layer}&amp;head={head.head}"' in page
        assert f"correlation {head.correlation:.2f}" in page
    assert "Definitions" in page
    assert "Provenance" in page


def test_token_text_is_escaped(inspection):
    attributes = {**inspection.result.attrs, "text": "<script>alert(1)</script>", "model": "<b>"}
    received = (Received("<script>", 3, 0.5),)
    heads = tuple(replace(head, raw=received, effective=received) for head in inspection.shown)
    page = render_report(replace(inspection, result=inspection.result.assign_attrs(attributes), shown=heads))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_same_report_has_the_same_bytes(inspection, trace):
    assert render_report(inspection, trace) == render_report(inspection, trace)


def test_it_is_written_completely_or_not_at_all(inspection, tmp_path):
    target = write_report(inspection, tmp_path / "new" / "report.html")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [child.name for child in target.parent.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="is a folder"):
        write_report(inspection, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(inspection, tmp_path / "file" / "report.html")
