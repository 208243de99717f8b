"""What a page lets a user take away: numbers, pictures, the page itself, and views to open again."""

import csv
import io
import json
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

import identiformer as idf
from identiformer.errors import InputError
from identiformer.explorer.views import open_view
from identiformer.models import load
from identiformer.models.generation.settings import Generation
from tests.measures.maps.tiny import tiny_network
from tests.models.families import SERVED, build, word_tokenizer, words

TEXT = "The minister wrote back to the schoolchildren at once. " * 4
ROW = {"layer": 4, "head": 3, "query": 2}
VIEW = "layer=4&head=3&query=2&open=export"


@pytest.fixture
def opened(serving, page, minilm):
    page.goto(f"{serving(minilm, TEXT).address}#{VIEW}")
    page.wait_for_selector("dt:has-text('certified bounds of 1 row')")
    return page


def saved(page, selector, folder):
    with page.expect_download() as download:
        page.click(selector)
    target = folder / download.value.suggested_filename
    download.value.save_as(target)
    return target


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_certificates_and_contributions_are_saved_as_numbers(opened, minilm, tmp_path):
    bounds = idf.ambiguity(minilm.trace(TEXT), 4, 3, queries=2).isel(query=0)
    rows = rows_of(saved(opened, "[aria-label$='certificates as CSV']", tmp_path))
    for name, column in (("raw", "weight"), ("low", "low"), ("high", "high"), ("contribution", "contribution")):
        assert [float(row[column]) for row in rows] == pytest.approx(bounds[name].values.tolist(), abs=2e-6)
    assert {(row["layer"], row["head"], row["query"], row["query_token"]) for row in rows} == {("4", "3", "2", "minister")}
    assert "alternative_farthest" in rows[0]
    content = json.loads(saved(opened, "[aria-label$='certificates as JSON']", tmp_path).read_text(encoding="utf-8"))
    assert content["model"] == "minilm"
    assert [row["low"] for row in content["rows"]] == [float(row["low"]) for row in rows]
    weights = rows_of(saved(opened, ".exports [aria-label='minilm-layer-4-head-3 as CSV']", tmp_path))
    assert [float(row["contribution"]) for row in weights] == pytest.approx(bounds.contribution.values.tolist(), abs=2e-2)


def test_a_picture_is_printed_alone_on_one_page_of_its_size(opened):
    opened.evaluate("() => { window.print = () => { window.printed = document.title; }; }")
    title = opened.title()
    opened.click(".exports [aria-label='minilm-layer-4-head-3 as PDF'] >> nth=0")
    assert opened.evaluate("() => window.printed") == "minilm-layer-4-head-3"
    width, height = (int(opened.get_attribute(".printed-picture > svg", side)) for side in ("width", "height"))
    document = opened.pdf(prefer_css_page_size=True)
    box = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", document)
    assert [[float(side) * 96 / 72 for side in page] for page in box] == [pytest.approx([width, height + 1], abs=1.5)]
    assert document.count(b"/FontFile2") + document.count(b"/FontDescriptor") > 0, "text is text, not a bitmap"
    opened.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert opened.query_selector(".printed-picture") is None
    assert opened.title() == title


@pytest.mark.slow
def test_the_picture_has_color_bars_and_names_of_axes(opened, tmp_path):
    picture = ElementTree.parse(saved(opened, ".exports [aria-label$='as SVG']", tmp_path)).getroot()
    written = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    maps = len(picture.findall(".//{http://www.w3.org/2000/svg}image"))
    assert maps >= 3
    assert written.count("key") == written.count("query") == maps
    assert written.count("raw attention") == 2  # over the map, and under its color bar
    marks = [float(text.replace("−", "-")) for text in written if re.fullmatch(r"−?[\d.]*\d", text)]
    assert marks.count(0) == maps
    steps = [f"{after:g}".strip("0.") for mark, after in pairwise(marks) if mark == 0]
    assert set(steps) <= {"1", "2", "5"}, "marks are round numbers"
    assert "minister" in written
    assert saved(opened, ".exports [aria-label$='as PNG']", tmp_path).read_bytes().startswith(b"\x89PNG")


def test_the_page_is_saved_with_what_is_computed(opened, tmp_path):
    opened.wait_for_selector(".answer")
    path = saved(opened, "text=Save as HTML", tmp_path)
    said = opened.locator(".answer p").first.inner_text().removesuffix(" Move its weight elsewhere")  # needs the model
    opened.context.set_offline(True)
    opened.goto(f"file://{path}")
    opened.wait_for_selector(".map canvas")
    assert opened.locator(".text-form").count() == 0
    opened.wait_for_selector(".row-table caption:has-text('Row of minister at 2')")
    assert opened.locator(".answer p").first.inner_text() == said
    assert opened.locator("td.low svg .ends").count() > 3, "the certified intervals are kept"


PARTS = (
    ".band",
    ".side",
    ".answer h2",
    ".row-table",
    ".main .maps",
    ".flow",
    ".attribution",
    ".layers",
    ".comparison",
    ".sources",
)
"""Of a page, in words."""


def shown(page):
    """What a page shows: its words, pictures and maps; buttons and choices of what could be computed are left out."""
    return page.evaluate(
        """names => [
            ...names.map(name => [name, [...document.querySelectorAll(name)].map(part => {
                const copy = part.cloneNode(true);
                copy.querySelectorAll("button, option:not([value=contribution])").forEach(button => button.remove());
                return copy.textContent;
            }).join()]),
            ...[...document.querySelectorAll("canvas")].map((canvas, at) => [`canvas ${at}`, canvas.toDataURL()]),
            ["pictures", [...document.querySelectorAll(".strip svg, .attribution svg")].map(svg => svg.outerHTML).join()],
        ]""",
        list(PARTS),
    )


@pytest.mark.parametrize("writes", [False, True])
def test_the_saved_page_shows_what_the_page_showed(serving, page, tmp_path, writes):
    network = tiny_network("llama", "CausalLM", double=False) if writes else build("bert", SERVED["bert"])
    model = load(network, word_tokenizer())
    options = {"generation": Generation(max_new_tokens=6)} if writes else {}
    server = serving(model, words(48), **options)
    row = "query=50" if writes else "query=5&compare=contribution"
    page.goto(f"{server.address}#layer=2&head=1&{row}&map=readable&shade=readable&open=attribution+layers+maps+export")
    page.wait_for_selector(".attribution svg")
    if writes:
        page.click("text=What did it draw on?")
        page.wait_for_selector(".sources")
    else:
        page.wait_for_selector(".comparison canvas")
        page.wait_for_selector(".layers svg")
    for working in (".progress", ".band .note >> nth=1"):
        page.wait_for_selector(working, state="detached")
    page.wait_for_selector("dt:has-text('certified bounds of 1 row')")
    path = saved(page, "text=Save as HTML", tmp_path)
    before = dict(shown(page))
    page.context.set_offline(True)
    page.goto(f"file://{path}")
    page.wait_for_selector(".sources" if writes else ".comparison canvas")
    page.wait_for_selector("caption:has-text('Row of')")
    page.wait_for_selector(".main .maps:has-text('at most')", state="detached")
    page.wait_for_timeout(500)  # thumbnails of heads are drawn one after another
    after = dict(shown(page))
    for name, content in before.items():
        assert after.get(name) == content, name
    assert after.keys() == before.keys()


def test_hostile_tokens_are_saved_safely(serving, page, tmp_path):
    tokenizer = word_tokenizer()
    model = load(build("bert", SERVED["bert"]), tokenizer)
    server = serving(model, "w1 w2 w3")
    hostile = ["=1+1", "</script><script>alert(1)</script>", "\u202eabc", "שלום", "x" * 300, "@cmd"]
    opened = server.texts.open
    server.texts.open = lambda *arguments, **options: _with_tokens(opened(*arguments, **options), hostile)
    page.goto(f"{server.address}#layer=1&head=0&query=1&open=export+move+compare&text=w1+w2+w3+w4+w5+w6")
    page.wait_for_selector("dt:has-text('certified bounds of 1 row')")
    rows = rows_of(saved(page, "[aria-label$='certificates as CSV']", tmp_path))
    assert [row["key_token"] for row in rows[1:7]] == ["'=1+1", hostile[1], "⟨U+202E⟩abc", "שלום", "x" * 300, "'@cmd"]
    path = saved(page, "text=Save as HTML", tmp_path)
    assert "</script><script>alert" not in path.read_text(encoding="utf-8")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440, "a long token does not widen the page"
    page.context.set_offline(True)
    page.goto(f"file://{path}")
    page.wait_for_selector(".map canvas")
    assert page.locator(".token").nth(2).inner_text() == hostile[1]


def _with_tokens(text, tokens):
    object.__setattr__(text.passage.trace.stacks[0].queries, "texts", ("[CLS]", *tokens, "[SEP]"))
    return text


def test_a_saved_view_opens_again(serving, page, minilm, tmp_path):
    page.goto(f"{serving(minilm, TEXT).address}#{VIEW}&shade=contribution&pattern=peak")
    page.wait_for_selector(".map canvas")
    view = open_view(saved(page, "text=Save view", tmp_path))
    assert (view.model, view.text, view.pair, view.generated) == ("minilm", TEXT, None, False)
    assert {name: view.view[name] for name in ROW} == ROW
    server = serving(minilm, view.text, view=dict(view.view))
    page.goto("about:blank")
    page.goto(server.address)
    page.wait_for_selector(".row-table caption:has-text('Row of minister at 2')")
    page.wait_for_selector("text=Layer 4, head 3")
    assert page.locator("label:has-text('contribution') input[type=radio]").is_checked()
    assert page.locator(".finder select >> nth=0").input_value() == "peak"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nothing", "is not JSON"),
        ('{"a": 1}', "got another JSON file"),
        ('{"identiformer_view": 1, "model": 3, "text": "a", "view": {}}', "the model or text in"),
        ('{"identiformer_view": 1, "model": "minilm", "text": "a", "view": {"layer": [1]}}', "but the selection in"),
    ],
)
def test_files_that_are_no_views(tmp_path, content, message):
    (tmp_path / "view.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        open_view(tmp_path / "view.json")
    with pytest.raises(InputError, match="cannot be read"):
        open_view(tmp_path / "none.json")
