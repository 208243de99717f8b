"""The report in a real browser: opened from a file, with the network off."""

import csv
import functools
import io
import json
import math
import re
from xml.etree import ElementTree

import pytest

import identiformer as idf
from identiformer.page.html import PAGE, data_elements, render
from identiformer.page.summary import summarize
from identiformer.readings.reader import with_certificates
from identiformer.report import write_attribution, write_report, write_run_report
from tests.browser import accessibility_violations

TEXT = "The schoolchildren wrote to the minister, and the minister wrote back to the schoolchildren. " * 3
LAYER, HEAD, QUERY = 4, 3, 5
KINDS = ("raw", "effective", "null")


@pytest.fixture(scope="module")
def trace(minilm):
    return minilm.trace(TEXT)


@pytest.fixture(scope="module")
def report(minilm, trace, tmp_path_factory):
    passage = idf.Passage.of(minilm, trace)
    reading = with_certificates(passage, idf.read(minilm, passage, layers=LAYER, heads=HEAD, directions=2))
    return write_report(reading, tmp_path_factory.mktemp("report") / "report.html", passage)


@pytest.fixture
def opened(page, report):
    def open_at(view=f"layer={LAYER}&head={HEAD}", path=report):
        page.context.set_offline(True)
        page.goto(f"file://{path}#{view}")
        page.wait_for_selector(".map canvas")
        return page

    return open_at


@pytest.fixture(scope="module")
def truth(trace):
    return idf.effective_attention(trace).sel(layer=LAYER, head=HEAD)


def cells(page, *columns):
    """The table of the selected row: position → numbers of these columns."""
    rows = page.locator(".row-table").first.locator("tbody tr:not(.rest)")
    return {
        int(row.locator("th small").inner_text()): [
            float(row.locator(f"td.{column}").inner_text().replace("−", "-")) for column in columns
        ]
        for row in rows.all()
    }


def pointed(page, row, column, count):
    """The numbers in the tooltip of a cell of the first map, by the title of their map."""
    box = page.locator(".stack").first.bounding_box()
    page.mouse.move(box["x"] + (column + 0.5) / count * box["width"], box["y"] + (row + 0.5) / count * box["height"])
    page.wait_for_selector(f".tooltip:has-text('({row}) → '):has-text('({column})')")
    lines = page.locator(".tooltip").inner_text().split("\n")[1:]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1].replace("−", "-")) for line in lines if "[" not in line}


def exported(page, name, folder):
    """The file that an export button saves."""
    with page.expect_download() as download:
        page.click(f".exports button:text-is('{name}') >> nth=0")
    target = folder / download.value.suggested_filename
    download.value.save_as(target)
    return target


def test_its_maps_are_those_of_the_library(opened, truth, trace):
    page = opened(f"layer={LAYER}&head={HEAD}&query={QUERY}")
    assert page.locator(".map").count() == 2
    record = trace.layer(LAYER).recorded()
    contribution = idf.equations.contributions(record.weights.double(), record.values.double(), record.projection)[HEAD, QUERY]
    for key, (weight, share) in cells(page, "weight", "contribution").items():
        assert weight == pytest.approx(float(truth.raw[QUERY, key]), abs=3e-3)
        assert share == pytest.approx(float(contribution[key]), abs=float(contribution.abs().max()) / 32)
    page.select_option(".map-tools select", "null")
    page.wait_for_selector(".map[data-kind=null] canvas")
    page.locator(".stack").first.scroll_into_view_if_needed()
    for column in (0, 3, 17):
        shown = pointed(page, QUERY, column, truth.sizes["key"])
        for name, kind in (("raw attention", "raw"), ("effective attention A⊥", "effective"), ("null component A∥", "null")):
            assert shown[name] == pytest.approx(float(truth[kind][QUERY, column]), abs=3e-3), (name, column)
    dots = page.evaluate("() => new Set(new Uint32Array(document.querySelector('.map canvas').getContext('2d')"
                         ".getImageData(0, 0, 200, 200).data.buffer)).size")  # fmt: skip
    assert dots > 50


def test_certificates_are_shown_without_a_server(opened, report, minilm, trace):
    (summary,) = re.findall('<script type="application/json" id="identiformer-summary">(.*?)</script>', report.read_text())
    (row,) = json.loads(summary)["certificates"]
    page = opened(f"layer={LAYER}&head={HEAD}&query={row['query']}")
    assert page.locator(".row-table .ends").count() >= 10
    page.select_option(".heads select", "certified_rows")
    share = idf.read(minilm, trace, layers=LAYER, heads=HEAD, directions=2).result.largest_certified.item()
    number = f"{share:.3f}" if share % 1 else f"{share:.0f}"
    page.wait_for_selector(f"[aria-label='layer {LAYER}, head {HEAD}: certified rows {number}']")
    answer = page.locator(".row-answer").inner_text()
    for sentence in (*row["sentences"], *row["patched_run"]["sentences"]):
        assert sentence in answer
    page.click(f".token >> nth={row['query'] + 1}")
    page.wait_for_selector(".row-answer:has-text('This file has no certified bounds of this row')")


def test_all_maps_follow_the_mouse_and_a_click_selects_the_row(opened):
    page = opened()
    page.locator(".stack").first.scroll_into_view_if_needed()
    box = page.locator(".stack").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".tooltip:has-text('→')")
    assert page.locator(".frame:visible").count() == 6
    row = re.findall(r"\((\d+)\) →", page.locator(".tooltip").inner_text())[0]
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(0, 0)
    page.wait_for_selector(f".row-table caption:has-text('at {row}')")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=Select a token of the text, or a row")


def test_a_link_restores_the_exact_view(opened):
    page = opened()
    page.click(".token >> nth=7")
    page.check("label:has-text('whole words') input")
    page.uncheck("label:has-text('special tokens') input")
    page.check("label:has-text('contribution') input")
    page.select_option(".map-tools select", "effective")
    page.click("th button:text-is('contribution')")
    page.fill("#find", "minister")
    page.wait_for_url(lambda url: "find=minister" in url)
    link = page.evaluate("location.hash")
    before = page.locator(".main").inner_text()
    page.goto("about:blank")
    opened(link.removeprefix("#"))
    page.wait_for_selector(".row-table caption")
    assert page.locator(".main").inner_text() == before
    assert page.locator(".token.hit").count() == 6
    assert "hidden special tokens" in before


def test_everything_by_keyboard(opened):
    page = opened("layer=2&head=5&query=null")

    page.keyboard.press("]")
    page.wait_for_selector("text=Layer 2, head 6")
    page.keyboard.press("}")
    page.wait_for_selector("text=Layer 3, head 6")
    for key in "jjjjk":  # faster than the page can draw, and none is lost
        page.keyboard.press(key)
    page.wait_for_selector(".row-table caption:has-text('at 2')")
    page.locator("[role=gridcell][tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("text=Layer 4, head 5")
    page.locator(".token").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".row-table caption:has-text('at 3')")
    page.keyboard.press("/")
    page.wait_for_selector("#find:focus")
    assert page.locator(".selected-head").inner_text().startswith("Layer 4, head 5")


def test_words_are_summed_and_hidden_special_tokens_keep_their_weight(opened, truth, trace):
    page = opened(f"layer={LAYER}&head={HEAD}&query=2&words=true&special=false")
    assert page.locator(".token").first.inner_text() == "The"
    assert page.locator(".token >> nth=1").inner_text() == "schoolchildren"
    rest = float(page.locator(".rest td.weight").inner_text())
    special = [position for position, flag in enumerate(trace.stack().keys.special) if flag]
    pieces = [position for position, word in enumerate(trace.stack().keys.word_ids) if word == 1]
    exact = truth.isel(query=pieces, key=special).sum("key").mean("query")
    assert rest == pytest.approx(float(exact.raw), abs=5e-3)


def test_means_over_heads_and_layers(opened, trace):
    page = opened(f"layer={LAYER}&head=-1&query={QUERY}")
    page.wait_for_selector(".row-table tbody")
    mean = idf.effective_attention(trace, layers=[LAYER]).mean(["layer", "head"]).isel(query=QUERY)
    for key, (weight,) in cells(page, "weight").items():
        assert weight == pytest.approx(float(mean.raw[key]), abs=3e-3)


def test_exports(opened, truth, tmp_path):
    page = opened(f"layer={LAYER}&head={HEAD}&query={QUERY}&open=export")

    export = functools.partial(exported, page, folder=tmp_path)
    rows = list(csv.DictReader(io.StringIO(export("CSV").read_text(encoding="utf-8"))))
    assert len(rows) == truth.sizes["key"]
    assert {row["query"] for row in rows} == {str(QUERY)}
    kept = json.loads(export("JSON").read_text(encoding="utf-8"))
    assert kept["model"] == "minilm"
    assert [line["key_token"] for line in kept["rows"]] == [row["key_token"] for row in rows]
    picture = ElementTree.parse(export("SVG")).getroot()
    assert picture.tag.endswith("svg")
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}image")) >= 3
    assert export("PNG").read_bytes().startswith(b"\x89PNG")
    lines = page.locator("pre").inner_text()
    names: dict = {}
    exec(lines, names)  # the lines that the page shows reproduce the view
    for kind in KINDS:
        numbers = [float(row[kind]) for row in rows]
        assert numbers == pytest.approx(names["maps"][kind].values.tolist(), abs=3e-3)
        assert not any(math.isnan(number) for number in numbers)


@pytest.mark.slow
def test_causal_rows(page, smollm2, tmp_path):
    trace = smollm2.trace(TEXT)
    passage = idf.Passage.of(smollm2, trace)
    target = write_report(idf.read(smollm2, passage, certify=False), tmp_path / "causal.html", passage)
    page.context.set_offline(True)
    page.goto(f"file://{target}#layer=12&head=6&open=export")
    page.wait_for_selector(".map canvas")
    page.keyboard.press("]")
    page.wait_for_selector("text=Layer 12, head 7")
    page.click(".token >> nth=30")
    page.wait_for_selector(".row-table caption:has-text('at 30')")
    exact = idf.effective_attention(trace, layers=[12], heads=[7]).isel(layer=0, head=0, query=30)
    for key, (weight,) in cells(page, "weight").items():
        assert weight == pytest.approx(float(exact.raw[key]), abs=6e-3)
    rows = list(csv.DictReader(io.StringIO(exported(page, "CSV", tmp_path).read_text(encoding="utf-8"))))
    for kind in KINDS:
        assert [float(row[kind]) for row in rows] == pytest.approx(exact[kind].values.tolist(), abs=6e-3)
    page.keyboard.press("w")
    page.fill("#find", "minister")
    page.wait_for_url(lambda url: "words=true" in url and "find=minister" in url)
    assert page.locator(".token.hit").all_inner_texts() == ["minister"] * 6
    link, before = page.evaluate("location.hash"), page.locator(".main").inner_text()
    page.goto("about:blank")
    page.goto(f"file://{target}{link}")
    page.wait_for_selector(".row-table caption")
    assert page.locator(".main").inner_text() == before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes(opened, theme):
    page = opened(f"layer={LAYER}&head={HEAD}&theme={theme}")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 20, 24)"}[theme]


def test_token_text_is_data(page, trace, tmp_path):
    summary = summarize(trace)
    nasty = [
        "<script>window.hacked = 1</script>",
        "<img src=x onerror='window.hacked = 1'>",
        "\u202egnol",
        "</script>",
        "a\u0000b",
    ]
    summary["queries"]["texts"][1 : 1 + len(nasty)] = nasty
    summary |= {"model": "<img src=x onerror='window.hacked = 1'>\u202e", "text": "</script>\u202e"}
    target = tmp_path / "nasty.html"
    target.write_text(
        render(PAGE, title="<script>window.hacked = 1</script>", **data_elements(summary, trace.stack())), encoding="utf-8"
    )
    page.goto(f"file://{target}#query=1&open=export")
    page.wait_for_selector(".row-table")
    texts = [token.inner_text() for token in page.locator(".token").all()[1:6]]
    assert texts == [nasty[0], nasty[1], "⟨U+202E⟩gnol", "</script>", "a⟨U+0000⟩b"]
    assert page.evaluate("window.hacked") is None
    assert page.title() == "<script>window.hacked = 1</script>"
    compile(page.locator("pre").inner_text(), "lines", "exec")


def test_token_text_is_not_a_formula_in_a_spreadsheet(page, trace, tmp_path):
    formulas = ["=1+1", "+x", "-", "-1+cmd|'/c'!A1", "@SUM(A1)", " =x", "＝x", '=HYPERLINK("http://x")']
    harmless = [
        "-0.5",
        "+3",
        "-1e-3",
        "a=b",
        "'=",
        "\tx",
        "\r=x",
    ]  # numbers, text, invisible characters
    summary = summarize(trace)
    texts = summary["queries"]["texts"]
    texts[1 : 1 + len(formulas) + len(harmless)] = [*formulas, *harmless]
    target = tmp_path / "formulas.html"
    target.write_text(render(PAGE, title="formulas", **data_elements(summary, trace.stack())), encoding="utf-8")
    page.goto(f"file://{target}#query=1&open=export")
    page.wait_for_selector(".row-table")
    rows = list(csv.DictReader(io.StringIO(exported(page, "CSV", tmp_path).read_text(encoding="utf-8"))))
    cells = [row["key_token"] for row in rows]
    assert cells[1 : 1 + len(formulas)] == [f"'{text}" for text in formulas]
    assert cells[1 + len(formulas) :][: len(harmless)] == [*harmless[:-2], "⟨U+0009⟩x", "⟨U+000D⟩=x"]
    assert {row["query_token"] for row in rows} == {"'=1+1"}
    assert any(row["null"].startswith("-") for row in rows)
    assert all(math.isfinite(float(row[kind])) for row in rows for kind in KINDS)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessibility(opened, theme):
    assert accessibility_violations(opened(f"layer={LAYER}&head={HEAD}&query={QUERY}&theme={theme}")) == []


def test_attribution_is_shown_without_a_server(page, minilm, tmp_path):
    text = "The minister wrote back."
    corpus = idf.run([text, "She wrote."], minilm, ["token_attribution"], out=tmp_path / "run", directions=2)["token_attribution"]
    result = idf.token_attribution(minilm, text)
    path = write_attribution(result, tmp_path / "attribution.html", 2, minilm.trace(text), corpus)
    page.context.set_offline(True)
    page.goto(f"file://{path}")
    page.wait_for_selector(".attribution-picture")
    shares = [float(cell.inner_text().rstrip("%")) / 100 for cell in page.locator(".attribution .self-contribution").all()]
    assert shares == pytest.approx(result.self_contribution.sel(target=2).values, abs=1e-3)
    medians = [
        float(row.locator("td").nth(1).inner_text().rstrip("%")) / 100 for row in page.locator(".attribution tbody tr").all()
    ]
    assert medians == pytest.approx(corpus.self_contribution_quantiles.sel(quantile=0.5).values, abs=1e-3)
    page.click(".token >> nth=4")
    page.wait_for_selector(".attribution h2:has-text('at 4')")
    with page.expect_download() as download:
        page.click("[aria-label='attribution-of-4 as SVG']")
    download.value.save_as(tmp_path / "attribution.svg")
    drawn = ElementTree.parse(tmp_path / "attribution.svg").getroot()
    assert "back" in {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert accessibility_violations(page) == []


def test_the_report_of_a_run(page, minilm, tmp_path):
    done = idf.run([TEXT, "The minister wrote back."], minilm, out=tmp_path / "run")
    path = write_run_report(done)
    page.context.set_offline(True)
    page.goto(f"file://{path}")
    assert page.locator("p").first.inner_text().startswith("A row of attention has"), "it opens with what was found"
    page.click("[aria-label^='layer 4, head 3: null mass']")
    page.wait_for_selector(".selected-head:has-text('Layer 4, head 3')")
    cells = {
        row.locator("th").inner_text().split(" share")[0]: row.locator("td").all()
        for row in page.locator(".row-table tbody tr").all()
    }
    numbers = [float(cell.inner_text()) for cell in cells["null mass"]]
    mass = done["effective_attention"].null_mass
    assert numbers == pytest.approx(
        [float(mass.sel(layer=4, head=3)), float(mass.sel(layer=4).mean()), float(mass.mean())], abs=1e-3
    )
    page.select_option(".heads select", "correlation")
    page.wait_for_selector("[aria-label^='layer 4, head 3: correlation']")
    with page.expect_download() as download:
        page.click("[aria-label='heads as SVG']")
    download.value.save_as(tmp_path / "heads.svg")
    drawn = ElementTree.parse(tmp_path / "heads.svg").getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}rect[@stroke]")) == 6 * 12
    assert "correlation" in {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert accessibility_violations(page) == []


def test_a_report_of_128_tokens_is_small(minilm, tmp_path):
    from identiformer.texts import PASSAGE

    model = minilm.limited(128)
    passage = idf.Passage.of(model, PASSAGE, truncate=True)
    assert len(passage.tokens) == 128
    path = write_report(idf.read(model, passage, layers=1, certify=False), tmp_path / "report.html", passage)
    assert path.stat().st_size < 5_000_000
