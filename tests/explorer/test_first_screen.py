"""What a person sees without clicking: the question, the answer, why, at any width, with the keyboard, in a real browser."""

import re
import time
from pathlib import Path

import pytest

from identiformer.figures import style
from identiformer.models import load
from tests.browser import accessibility_violations
from tests.models.families import SERVED, build, word_tokenizer, words

ROOT = Path(__file__).parents[2]
WIDTHS = {390: 844, 768: 1024, 1024: 768, 1440: 900, 1920: 1080}
BOXES = (".masthead", ".text-form", ".band", ".side", ".answer", ".controls", ".flow", ".row-box", ".maps", ".sections")


@pytest.fixture(scope="module")
def model():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture
def opened(serving, page, model):
    page.goto(serving(model, words(40)).address)
    page.wait_for_selector(".map canvas")
    return page


def boxes(page):
    """The boxes of the page's parts, from the top of the page: left, top, right, bottom."""
    measure = """names => Object.fromEntries(names.flatMap(name => {
        const element = document.querySelector(name);
        if (!element || !element.checkVisibility()) return [];
        const box = element.getBoundingClientRect();
        return [[name, [box.left, box.top + scrollY, box.right, box.bottom + scrollY]]];
    }))"""
    return page.evaluate(measure, BOXES)


def overlap(one, other):
    return min(one[2], other[2]) - max(one[0], other[0]) > 1 and min(one[3], other[3]) - max(one[1], other[1]) > 1


def test_the_layout_at_five_widths(opened):
    opened.wait_for_selector(".row-answer:has-text('attends most')")
    for width, height in WIDTHS.items():
        opened.set_viewport_size({"width": width, "height": height})
        opened.wait_for_timeout(150)
        assert opened.evaluate("document.documentElement.scrollWidth") <= width, f"{width} px: scrolls sideways"
        found = boxes(opened)
        names = list(found)
        overlapping = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if overlap(found[a], found[b])]
        assert not overlapping, f"{width} px"
        assert all(box[2] <= width + 1 for box in found.values()), f"{width} px"
        if width >= 1024:
            assert found[".answer"][3] < height, f"{width} px: the answer is below the fold"
            assert found[".flow"][3] < height, f"{width} px: the text is below the fold"
        assert opened.locator(".row-box").evaluate("box => box.scrollWidth <= box.clientWidth"), f"{width} px: columns cut off"
        if width <= 600:
            assert opened.locator("summary:text-is('Maps')").is_visible()
            assert found[".answer"][1] < found[".flow"][1] < found[".row-box"][1] < found[".side"][1]


def test_nothing_needs_a_click_or_a_scroll_to_answer_for_a_row(opened):
    assert opened.locator("h1").inner_text() == "What may this attention map be taken to mean?"
    assert opened.locator("main").count() == 1
    opened.wait_for_selector(".row-answer:has-text('patched run')")
    answer = opened.locator(".row-answer").inner_text()
    assert re.search("could be anywhere in|is certified to be in", answer)
    assert "So the model's output does not show which of the two rows was used" in answer
    assert boxes(opened)[".row-box"][1] < 900
    assert opened.locator(".row-table .ends").count() > 5
    opened.wait_for_selector(".categories li:has-text('heads')")
    assert opened.locator(".token[aria-pressed=true]").count() == 1
    names = [token.get_attribute("aria-label") for token in opened.locator(".token").all()]
    assert len(set(names)) == len(names), "tokens with the same text are told apart"


def test_every_term_is_explained(opened):
    opened.wait_for_selector(".finding:has-text('is certified (present')")
    opened.wait_for_selector(".row-answer:has-text('patched run')")
    marks = opened.locator(".term:visible")
    names = [mark.get_attribute("aria-label") for mark in marks.all()]
    assert len(names) > 8
    for index, name in enumerate(names):
        marks.nth(index).click()
        definition = opened.locator(".definition:popover-open")
        assert len(definition.inner_text()) > 30, name
        opened.keyboard.press("Escape")
    opened.click("text=Help")
    opened.wait_for_selector("dialog:has-text('What passes all three is readable')")
    for link in opened.locator("dialog a").all():
        address, page = link.get_attribute("href").rsplit("/", 1)
        assert f'Documentation = "{address}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        assert (ROOT / "docs" / page.replace(".html", ".md")).is_file()
    assert not accessibility_violations(opened)
    opened.click("text=Show me around")
    for _ in range(3):
        opened.wait_for_selector(".toured")
        opened.click(".tour button >> nth=0")
    opened.click("text=Done")
    opened.wait_for_selector(".toured", state="detached")


def test_maps_have_tokens_on_their_axes_zoom_and_a_tooltip(opened):
    opened.wait_for_selector(".row-answer:has-text('patched run')")  # sentences that arrive later change the page's height
    opened.wait_for_selector("text=reading all heads", state="detached")
    axis = opened.locator(".map .names.columns").first
    assert axis.locator("text.axis").text_content() == "key"
    before, height = axis.locator("text").count(), opened.evaluate("document.documentElement.scrollHeight")
    assert before > 10
    box = opened.locator(".stack").first.bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = opened.locator(".tooltip")
    assert re.search(r"→ .*\nraw attention 0\.\d+", tip.inner_text())
    place = tip.bounding_box()
    assert abs(place["x"] - box["x"] - box["width"] / 2) < 300
    assert opened.evaluate("document.documentElement.scrollHeight") == height, "hovering does not change the page's height"
    opened.mouse.down()
    opened.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.75)
    opened.mouse.up()
    opened.wait_for_function(f"document.querySelector('.map .names.columns').querySelectorAll('text').length < {before}")
    opened.locator(".stack").first.focus()
    first = axis.locator("text").first.text_content()
    for _ in range(4):
        opened.keyboard.press("ArrowLeft")
    assert axis.locator("text").first.text_content() != first
    opened.click("button:text-is('whole')")
    opened.wait_for_function(f"document.querySelector('.map .names.columns').querySelectorAll('text').length == {before}")


def test_both_maps_can_have_one_scale(opened):
    largest = "[...document.querySelectorAll('.maps .legend')].map(legend => legend.innerText.split('\\n').pop())"
    opened.select_option(".maps select", "contribution")
    opened.wait_for_function(f"new Set({largest}).size == 2")
    separate = opened.evaluate(largest)
    opened.check("text=same scale")
    opened.wait_for_function(f"new Set({largest}).size == 1")
    assert opened.evaluate(largest)[0] == max(separate, key=float)
    opened.uncheck("text=same scale")
    opened.wait_for_function(f"new Set({largest}).size == 2")
    assert opened.evaluate(largest) == separate


def test_the_sink_is_named_and_can_be_hidden(opened):
    label = opened.locator("label:has-text('hide')")
    token = re.findall("‘(.*)’", label.inner_text())[0]
    label.locator("input").check()
    hidden = opened.locator(".token.hidden-sink")
    assert hidden.inner_text() == token
    assert hidden.evaluate("token => token.style.boxShadow") == ""
    position = hidden.get_attribute("data-column")
    assert position not in opened.locator(".row-table tbody th small").all_inner_texts()


def test_the_null_component_is_not_taken_for_uncertainty(opened):
    opened.wait_for_selector(".row-table .ends")
    for kind, meaning in (("null", "certified intervals do"), ("effective", "does not show how much a weight matters")):
        opened.select_option(".map-tools select", kind)
        opened.wait_for_selector(f".map[data-kind={kind}] canvas")
        opened.locator(".map-tools .term").click()
        assert meaning in opened.locator(".definition:popover-open").inner_text()
        opened.keyboard.press("Escape")
        captions = " ".join(opened.locator("figcaption, caption, .answer").all_inner_texts())
        assert "changes nothing" not in captions
    answer = opened.locator(".row-answer").inner_text()
    assert re.search("could be anywhere in|is certified to be in", answer), (
        "whether a weight is uncertain is said by its interval"
    )


def test_means_say_why_they_have_no_bounds(opened):
    opened.click("[role=gridcell][aria-label='layer 2, mean over heads']")
    opened.wait_for_selector(".row-answer:has-text('those of single heads')")


def test_a_short_text_is_determined(serving, page, model):
    page.goto(serving(model, words(4)).address)
    page.wait_for_selector(".finding:has-text('determines every weight')")
    page.wait_for_selector(".map canvas")
    assert page.locator(".map-tools option[value=null]").count() == 0, "no empty map is offered"
    assert page.locator("button:text-is('Try a longer text')").count() == 1


def test_a_decoder_shows_from_which_row_on_weights_are_ambiguous(serving, page):
    decoder = load(build("llama", SERVED["llama"]), word_tokenizer())
    page.goto(serving(decoder, words(30)).address)
    page.wait_for_selector(".null-line")
    row = int(re.findall(r"From row (\d+) on", page.locator(".finding").inner_text())[0])
    width = decoder.trace(words(30)).layer(1).recorded().values.shape[-1]
    assert row == width
    assert f"from row {row} on" in page.locator(".null-line").first.get_attribute("title")
    page.click(".token >> nth=4")
    page.wait_for_selector(".row-table caption:has-text('at 4')")
    keys = sorted(int(position) for position in page.locator(".row-table tbody th small").all_inner_texts())
    assert keys == [0, 1, 2, 3, 4], "later keys are not visible"


def test_a_text_that_is_too_long_can_be_cut_and_old_maps_are_marked(serving, browser, model):
    page = browser.new_page()  # whose console may show that a request was rejected
    page.goto(serving(model.limited(20), words(10)).address)
    page.wait_for_selector(".map canvas")
    page.fill("textarea >> nth=0", words(40))
    page.wait_for_selector("text=Not run yet")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".alert:has-text('expected at most 20 tokens')")
    assert page.locator(".stale .explorer").count() == 1, "the maps are of the text before"
    page.click("text=Cut the text at the limit")
    page.wait_for_selector(".about:has-text('20 tokens')")
    assert page.locator(".stale").count() == 0
    page.fill("textarea >> nth=0", "   ")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".alert:has-text('expected a text, got an empty one')")
    page.close()


def test_hits_are_scrolled_into_view(serving, page, model):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(serving(model, words(60)).address)
    page.wait_for_selector(".token >> nth=60")
    last = page.locator(".token").nth(60).inner_text()
    page.fill("#find", last)
    visible = "token => { const [a, b] = [token.getBoundingClientRect(), token.parentElement.getBoundingClientRect()];"
    visible += " return a.top >= b.top && a.bottom <= b.bottom; }"
    assert any(token.evaluate(visible) for token in page.locator(".token.hit").all())
    page.goto(page.url.split("#")[0] + "#query=58")
    page.wait_for_selector(".token.lit[data-column='58']")
    assert page.locator(".token.lit").evaluate(visible)


def test_the_keyboard_reaches_everything(opened):
    opened.locator(".masthead button").first.focus()
    reached = set()
    part = "document.activeElement.closest('.masthead, .text-form, .heads, .controls, .flow, .row-box, .maps, .sections')"
    for _ in range(120):
        reached.update((opened.evaluate(f"{part}?.className") or "").split())
        opened.keyboard.press("Tab")
    assert {"masthead", "text-form", "heads", "controls", "flow", "row-box", "maps", "sections"} <= reached
    opened.locator(".token").first.focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("Enter")
    opened.wait_for_selector(".token.lit[data-column='1']")
    opened.keyboard.press("c")
    assert opened.locator("input[name=shade]").nth(1).is_checked()
    opened.keyboard.press("x")
    opened.wait_for_selector(".hidden-sink")


def test_another_theme_changes_the_shading_of_the_text_at_once(opened):
    shade = "() => document.querySelector('.token[data-certain=hollow]').style.boxShadow"
    opened.wait_for_selector(".token[data-certain=hollow]")
    opened.select_option(".masthead select", "light")
    before = opened.evaluate(shade)
    opened.select_option(".masthead select", "dark")
    opened.wait_for_selector(".identiformer[data-theme='dark']")
    opened.wait_for_timeout(200)
    assert opened.evaluate(shade) != before


def test_a_printed_page_has_the_whole_text(serving, page, model):
    page.goto(serving(model, words(60)).address)
    page.wait_for_selector(".token >> nth=61")
    page.emulate_media(media="print")
    assert not page.locator(".text-form").is_visible()
    hidden = page.locator(".flow").evaluate("flow => flow.scrollHeight - flow.clientHeight")
    assert hidden <= 1, "nothing is scrolled away"
    assert page.locator(".token").last.is_visible()


def test_figures_and_page_have_one_palette():
    colors = (ROOT / "ui/src/drawing/colors.ts").read_text(encoding="utf-8").split("DARK")[0]
    for name in ("positive", "negative"):
        stops = re.findall(r"\[(\d+), (\d+), (\d+)\]", colors.split(f"{name}: [")[1].split("]]")[0] + "]")
        assert (
            tuple("#" + "".join(f"{int(channel):02x}" for channel in stop) for stop in stops) == getattr(style, name.upper())[1:]
        )


def test_the_first_row_comes_before_all_heads_and_a_page_that_is_left_stops_working(serving, page, model, monkeypatch):
    def endless(heads, count, tolerance, processes, bar, upper):
        bar.expect(1)
        while True:
            time.sleep(0.02)
            bar.advance(0)
            yield from ()

    monkeypatch.setattr("identiformer.measures.heads.stream.certify_heads", endless)
    server = serving(model, words(40))
    tasks = []
    page.on("request", lambda request: tasks.append(request.post_data_json["task"]) if request.url.endswith("/jobs") else None)
    with page.expect_request(lambda request: "read heads" in (request.post_data or "")) as started:
        page.goto(server.address)
    assert tasks == ["certify", "read heads"]
    assert "patched run" in page.locator(".row-answer").inner_text(), "the first row waits for nothing"
    job = server.jobs.find(started.value.response().json()["job"])
    page.wait_for_selector("text=reading all heads")
    assert job.state == "running"
    page.goto("about:blank")
    page.wait_for_timeout(1500)
    assert job.state == "canceled", "long before the server misses the page"
