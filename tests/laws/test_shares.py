"""A text has the same shares of weight on every path: read, reports, the explorer, a corpus and commands."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import identiformer as idf
from identiformer.cli import run_command
from identiformer.explorer.background import TextReader
from identiformer.figures.reading import _parts
from identiformer.page.reading import SHOWN_DIGITS
from identiformer.page.summary import summarize
from identiformer.readings.corpus import findings, tables_of
from identiformer.readings.heads import head_parts
from identiformer.report.reports import render_report
from tests.measures.maps.tiny import tiny_network
from tests.models.families import SERVED, build, each, word_tokenizer, words

TEXT = words(24)
SHARES = ("certified", "contributing", "readable", "output_share", "sink_share")
BAR = SimpleNamespace(expect=lambda amount: None, advance=lambda amount: None)


@pytest.fixture(scope="module", params=each(["bert", "llama", "answer"], {"llama"}))  # which writes the answer
def path(request, tmp_path_factory):
    """A model in a folder, and how many tokens it writes after the text."""
    folder = tmp_path_factory.mktemp(request.param)
    writes = 6 if request.param == "answer" else None
    network = tiny_network("llama", "CausalLM", double=False) if writes else build(request.param, SERVED[request.param])
    network.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return str(folder), writes


@pytest.fixture(scope="module")
def model(path):
    return idf.load(path[0])


@pytest.fixture(scope="module")
def content(model, path):
    return TEXT if path[1] is None else model.generate(TEXT, max_new_tokens=path[1])


@pytest.fixture(scope="module")
def reading(model, content):
    return idf.read(model, content)


def shown(numbers):
    """Numbers of a page, which rounds them."""
    return np.round(np.array(numbers, dtype=float), SHOWN_DIGITS)


def same_on_page(panel, reading):
    result = reading.result
    for name in ("certified", "contributing", "readable", "sink_share"):
        np.testing.assert_array_equal(shown(panel["numbers"][name]), shown(result[name]), err_msg=name)
    np.testing.assert_array_equal(shown(panel["own"]), shown(result.self_contribution))
    assert panel["sentences"] == reading.overview()


def test_the_page_of_a_report(model, content, reading):
    page = render_report(reading, idf.Passage.of(model, content))
    same_on_page(json.loads(re.findall('id="identiformer-summary">(.*?)</script>', page)[0])["reading"], reading)


@pytest.mark.parametrize("certify", [False, True])
def test_the_explorer(model, content, reading, certify):
    trace = model.trace(content)
    reader = TextReader(idf.Passage.of(model, content))
    if certify:
        panel = reader.read(BAR, lambda _: None)
        same_on_page(panel, reading)
        of_page = summarize(trace, reading=reading)["reading"]
        for name in ("categories", "head_sentences", "sinks"):
            assert panel[name] == of_page[name], name
    else:
        before = idf.read(model, content, certify=False)
        for name in SHARES[1:2] + SHARES[3:]:
            np.testing.assert_allclose(reader.reading.result[name], before.result[name], rtol=1e-12, err_msg=name)
        expected = before.overview()[0].split(" contributes")[0]
        assert reader.panel()["sentences"][0].startswith(expected)


@pytest.mark.usefixtures("undrawn")
def test_a_corpus_of_one_text(model, path, reading, tmp_path):
    generate = {} if path[1] is None else {"generate": path[1]}
    run = idf.run([TEXT], model, ["reading"], out=tmp_path / "run", **generate)
    corpus, result = run["reading"], reading.result
    for name in SHARES:
        np.testing.assert_allclose(corpus[name], result[name], rtol=1e-9, atol=1e-12, err_msg=name)
    printed = " ".join(findings(run.results))
    for share in SHARES[:3]:
        assert f"{float(result[share].mean()):.0%}" in printed
    table = tables_of(run.results)["reading"]
    by_layer = [
        [f"{float(result[name].sel(layer=layer).mean()):.1%}" for name in (*SHARES[:3], "sink_share")] for layer in (1, 2)
    ]
    assert [row[1:5] for row in table.cells] == by_layer


def test_commands(model, path, content, reading, capsys):
    generate = () if path[1] is None else ("--generate", str(path[1]))
    assert run_command(["inspect", TEXT, "--model", path[0], *generate, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["reading"]
    for name in SHARES:
        np.testing.assert_allclose(np.array(found["heads"][name], float), reading.result[name], rtol=1e-12, err_msg=name)
    assert found["sentences"][0] == reading.sentences()[0]


def test_layers_and_parts_of_heads(reading):
    result = reading.result
    parts, of_heads = _parts(result), head_parts(result)
    names = {"readable": "readable", "mixed": "mixed", "noncontributing": "noncontributing", "free": "undetermined"}
    for row in reading.table():
        if row.head is None:
            for name in SHARES[:3]:
                assert getattr(row, name) == float(result[name].sel(layer=row.layer).mean())
    for name, category in names.items():
        np.testing.assert_allclose(parts[name], of_heads[category].mean("head"), atol=1e-12, err_msg=name)
