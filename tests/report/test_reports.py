"""The report is one file that works offline, and token text in it is data."""

import base64
import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError
from identiformer.measures.heads.example import head_to_show
from identiformer.readings.effective import effective_sentences
from identiformer.report import render_report, write_report
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture(scope="module")
def passage(model):
    return idf.Passage.of(model, words(20))


@pytest.fixture(scope="module")
def reading(model, passage):
    return idf.read(model, passage)


def text_of(page):
    """The words of a page: between its tags, and without the breaks of lines."""
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", page)).split())


def test_the_page_is_complete_and_needs_no_network(reading):
    page = render_report(reading)
    assert len(re.findall("<img ", page)) == 4
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "<script" not in page
    for sentence in effective_sentences(reading.effective, reading.width):
        assert sentence in text_of(page)


def test_with_the_passage_the_report_is_interactive_and_still_complete(reading, passage):
    page = render_report(reading, passage)
    assert len(re.findall('id="identiformer-layer-[0-9]+"', page)) == len(passage.stack.layers)
    assert re.findall(r'(?:src|href)="(?!data:|#)', page) == []
    for layer, head in reading.described:
        correlation = float(reading.effective.correlation.sel(layer=layer, head=head))
        assert f"Layer {layer}, head {head} (correlation {correlation:.2f}" in page
    assert "Definitions" in page
    assert "Provenance" in page


def test_the_report_opens_with_the_reading(passage, reading):
    page = html.unescape(render_report(reading, passage))
    opening, _ = page.split("<h2>Effective attention</h2>")
    headings = re.findall("<h[12]>(.*?)</h[12]>", opening)
    assert headings[-2:] == ["Weight that passes each test", "Statements that fail a test"]
    for sentence in reading.sentences():
        assert sentence in opening
    for statement in (*reading.holding, *reading.failing):
        cells = f"<td class=words>{statement.pair}</td><td>{statement.weight:.0%}</td><td>{statement.certified:.0%}</td>"
        assert cells in opening
    idle, cascade, maps = (base64.b64decode(svg).decode() for svg in re.findall(r"<img [^>]*base64,([^\"]+)", opening))
    assert "of the attention is idle for the embedding" in idle
    assert "readable: attributed to the token it points to" in cascade
    assert "which is shown as an example" in opening
    assert "what passes all tests" in maps


def test_the_heads_of_the_page_have_the_numbers_of_the_reading(passage, reading):
    page = render_report(reading, passage)
    summary = json.loads(re.findall('id="identiformer-summary">(.*?)</script>', page)[0])
    for name in ("certified", "contributing", "readable", "sink_share"):
        assert np.array(summary["reading"]["numbers"][name]) == pytest.approx(reading.result[name].values, abs=1e-4)
        assert name in summary["terms"]
    assert (summary["first"]["layer"], summary["first"]["head"]) == head_to_show(reading.result)
    assert np.array(summary["numbers"]["certified_rows"]) == pytest.approx(reading.result.largest_certified.values, abs=1e-4)


def test_the_page_has_the_certified_fractions_of_large_weights(model, passage, monkeypatch):
    monkeypatch.setattr("identiformer.measures.heads.table.LARGE", 0.04)
    reading = idf.read(model, passage, maps=True)
    page = render_report(reading, passage)
    bounds = json.loads(re.findall('id="identiformer-bounds">(.*?)</script>', page)[0])
    content = base64.b64decode(bounds["content"])
    one = reading.result.sel(layer=2, head=1)
    at, checked = bounds["starts"]["2 1"], 0
    for weights, low in zip(one.weight.values, one.low.values, strict=True):
        count, at = content[at], at + 1
        keys = np.frombuffer(content, "<u2", count, at)
        fractions = np.frombuffer(content, np.uint8, count, at + 2 * count) / 255
        assert keys.tolist() == np.flatnonzero(weights >= 0.04).tolist()
        assert (fractions * weights[keys] <= low[keys] + 1e-9).all(), "what the page calls certified is certified"
        at, checked = at + 3 * count, checked + count
    assert checked > 20


def test_a_reading_of_one_head_without_certificates(passage, model):
    one = idf.read(model, words(20), layers=2, heads=1, certify=False)
    page = render_report(one, passage)
    assert "<th>certified</th>" not in page
    summary = json.loads(re.findall('id="identiformer-summary">(.*?)</script>', page)[0])
    assert "certified" not in summary["reading"]["numbers"]
    assert summary["reading"]["numbers"]["readable"][0][1] is None
    assert summary["reading"]["categories"][0][1] is None
    assert summary["reading"]["numbers"]["readable"][1][1] == pytest.approx(float(one.result.readable.squeeze()), abs=1e-4)


def test_an_interrupted_reading_has_no_pictures(reading):
    names = ("certified", "contributing", "readable")
    empty = reading.result.assign({name: reading.result[name] * np.nan for name in names})
    page = render_report(replace(reading, result=empty, shown=None, idle=None))
    assert "before the computation was interrupted" in page
    assert "nan%" not in page
    assert "data:image" not in page.split("<h2>Effective attention</h2>")[0]


def test_token_text_is_escaped(reading):
    attributes = {**reading.result.attrs, "text": "<script>alert(1)</script>", "model": "<b>"}
    holding = tuple(replace(statement, key_token="<script>") for statement in reading.holding)
    page = render_report(replace(reading, result=reading.result.assign_attrs(attributes), holding=holding))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_same_report_has_the_same_bytes(reading, passage):
    assert render_report(reading, passage) == render_report(reading, passage)


def test_it_is_written_completely_or_not_at_all(reading, tmp_path):
    target = write_report(reading, tmp_path / "new" / "report.html")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [child.name for child in target.parent.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="is a folder"):
        write_report(reading, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(reading, tmp_path / "file" / "report.html")
