"""The explorer as a person uses it: types a text, certifies a row, runs the model, asks where a vector came from."""

import pytest

from identiformer.models import load
from tests.explorer.conftest import barriers
from tests.models.families import SERVED, build, word_tokenizer, words

TEXT = "The schoolchildren wrote to the minister, and the minister wrote back to the schoolchildren at once. " * 2


@pytest.fixture
def opened(page, serving, minilm):
    server = serving(minilm, TEXT)
    page.goto(server.address)
    page.wait_for_selector(".map canvas")
    return page


def test_a_row_is_certified_and_the_model_run_with_another_attention(opened):
    opened.click(".token >> nth=4")
    opened.click("text=Certify this row")
    opened.wait_for_selector(".intervals")
    assert "with the head's output the same" in opened.locator(".verdict p").first.inner_text()
    opened.click("text=Run the model with it")
    opened.wait_for_selector(".outcome")
    patched, control = (float(each.inner_text()) for each in opened.locator(".outcome p b").all())
    assert patched < control / 5


def test_where_a_vector_came_from_and_a_job_that_is_cancelled(opened):
    opened.click(".token >> nth=4")
    opened.click("button:text-is('Attribute')")
    opened.click(".progress button")
    opened.wait_for_selector("button:text-is('Attribute')")
    opened.click("button:text-is('Attribute')")
    opened.wait_for_selector(".origins-picture", timeout=240_000)
    shares = [float(each.inner_text().rstrip("%")) for each in opened.locator(".origins .own").all()]
    assert len(shares) == 6
    assert shares[0] > 30 > shares[-1]


def test_another_text_a_pair_and_a_text_that_is_too_long(opened):
    opened.fill("textarea >> nth=0", "He said the pie was his.")
    opened.fill("textarea >> nth=1", "She did not agree.")
    opened.click("button.primary")
    opened.wait_for_selector("text=minilm, 15 tokens")
    opened.wait_for_url(lambda url: "pair=She+did+not+agree" in url)
    link = opened.url
    opened.goto("about:blank")
    opened.goto(link)
    opened.wait_for_selector("text=minilm, 15 tokens")
    assert opened.locator("textarea").nth(1).input_value() == "She did not agree."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_barrier(opened, theme):
    opened.click(".token >> nth=4")
    opened.click("text=Certify this row")
    opened.wait_for_selector(".intervals")
    opened.select_option(".masthead select", theme)
    opened.wait_for_selector(f".identiformer[data-theme='{theme}']")
    assert barriers(opened) == []


def test_a_long_text_is_looked_at_in_windows(page, serving, monkeypatch):
    monkeypatch.setattr("identiformer.models.model.WEIGHTS_BUDGET", 0)
    monkeypatch.setattr("identiformer.explorer.texts.ROWS_IN_VIEW", 16)
    model = load(build("llama", SERVED["llama"]), word_tokenizer())
    fetched = []
    page.on("request", lambda request: fetched.append(request.url.rsplit("/layers/", 1)[-1]))
    page.goto(serving(model, words(40)).address + "#layer=2&head=1")
    page.wait_for_selector("output:has-text('0 to 15 of 42')")
    page.wait_for_selector(".map canvas")
    assert page.locator(".map").count() == 1
    page.click(".token >> nth=35")
    page.wait_for_selector(".row-table caption:has-text('at 35 ')")
    page.wait_for_selector("output:has-text('26 to 41 of 42')")
    assert page.locator(".token.lit").get_attribute("data-column") == "35"
    own = model.trace(words(40), form="factored").layer(2).effective().rows(1, [35])[0]
    for row in page.locator(".row-table tbody tr").all():
        at, weight = (cell.inner_text() for cell in row.locator("td").all())
        assert float(weight.replace("−", "-")) == pytest.approx(float(own[int(at)]), abs=float(own.abs().max()) / 100 + 5e-4)
    for key in "jjkkkkkkkkkkkk":
        page.keyboard.press(key)
    page.wait_for_selector(".row-table caption:has-text('at 25 ')")
    assert {each for each in fetched if each.startswith("2")} == {"2/rows/0", "2/rows/26", "2/rows/17"}


def test_heads_coloured_by_how_many_of_their_rows_are_certain(page, serving, minilm):
    page.goto(serving(minilm, "The minister wrote back to the schoolchildren at once, and they wrote to her.").address)
    page.wait_for_selector(".map canvas")
    page.select_option(".heads select", "certified")
    page.click("text=Certify some rows of every head")
    page.wait_for_selector("[role=gridcell][aria-label*='certified 1']", timeout=240_000)
    assert "colour=certified" in page.evaluate("location.hash")
