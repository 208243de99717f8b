"""The explorer as a person uses it: types a text, certifies a row, runs the model, asks where a vector came from."""

import re

import pytest

from identiformer.models import load
from tests.browser import barriers
from tests.models.families import ENCODER_DECODERS, build, word_tokenizer, words

SENTENCE = "The schoolchildren wrote to the minister, and the minister wrote back to the schoolchildren at once. "
TEXT = SENTENCE * 2


@pytest.fixture
def opened(page, serving, minilm):
    server = serving(minilm, TEXT)
    page.goto(server.address)
    page.wait_for_selector(".map canvas")
    return page


# A row must see more tokens than a head is wide, or nothing else gives the same output: 32 and 64.
@pytest.mark.parametrize(("name", "times", "row"), [("minilm", 2, 4), ("smollm2", 5, 85)])
def test_a_row_is_certified_and_the_model_run_with_another_attention(page, serving, request, name, times, row):
    page.goto(serving(request.getfixturevalue(name), SENTENCE * times).address)
    page.wait_for_selector(".map canvas")
    page.click(f".token >> nth={row}")
    page.click("text=Certify this row")
    page.wait_for_selector(".intervals")
    assert "with the head's output the same" in page.locator(".verdict p").first.inner_text()
    page.click("text=Run the model with it")
    page.wait_for_selector(".outcome")
    patched, control = (float(each.inner_text()) for each in page.locator(".outcome p b").all())
    assert patched < control / 5


def test_where_vectors_of_a_decoder_came_from(page, serving, smollm2):
    page.goto(serving(smollm2, "The minister wrote back.").address)
    page.click(".token >> nth=1")
    page.click("button:text-is('Attribute')")
    page.wait_for_selector(".origins-picture", timeout=240_000)
    shares = [float(each.inner_text().rstrip("%")) for each in page.locator(".origins .own").all()]
    assert len(shares) == 30
    assert shares[0] > shares[-1]
    assert {"back", "."}.isdisjoint(page.locator(".origins td.words bdi").all_inner_texts()), "what comes later is no origin"


def test_where_a_vector_came_from_and_a_job_that_is_canceled(opened):
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


def test_a_long_text_is_looked_at_in_windows(page, serving, monkeypatch, smollm2):
    monkeypatch.setattr("identiformer.models.model.WEIGHTS_BUDGET", 0)
    monkeypatch.setattr("identiformer.explorer.texts.ROWS_IN_VIEW", 16)
    tokens = len(smollm2.trace(TEXT, form="factored").tokens)
    own = smollm2.trace(TEXT, form="factored").layer(2).effective().rows(1, [tokens - 7])[0]
    fetched = []
    page.on("request", lambda request: fetched.append(request.url.rsplit("/layers/", 1)[-1]))
    page.goto(serving(smollm2, TEXT).address + "#layer=2&head=1")
    page.wait_for_selector(f"output:has-text('0 to 15 of {tokens}')")
    page.wait_for_selector(".map canvas")
    assert page.locator(".map").count() == 1
    page.click(f".token >> nth={tokens - 7}")
    page.wait_for_selector(f".row-table caption:has-text('at {tokens - 7} ')")
    page.wait_for_selector(f"output:has-text('{tokens - 16} to {tokens - 1} of {tokens}')")
    assert page.locator(".token.lit").get_attribute("data-column") == str(tokens - 7)
    for row in page.locator(".row-table tbody tr").all():
        at, weight = (cell.inner_text() for cell in row.locator("td").all())
        assert float(weight.replace("−", "-")) == pytest.approx(float(own[int(at)]), abs=float(own.abs().max()) / 100 + 5e-4)
    for key in "jjkkkkkkkkkkkk":
        page.keyboard.press(key)
    page.wait_for_selector(f".row-table caption:has-text('at {tokens - 17} ')")
    assert {each for each in fetched if each.startswith("2/")} == {"2/rows/0", f"2/rows/{tokens - 16}", f"2/rows/{tokens - 25}"}


def test_the_parts_of_an_encoder_decoder(page, serving):
    model = load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    trace = model.trace(words(9), words(5))
    page.goto(serving(model, words(9), words(5)).address)
    page.wait_for_selector(".map canvas")
    page.select_option("label:has-text('attention of the') select", "cross")
    page.wait_for_selector(".masthead :text('cross attention')")
    page.wait_for_selector(".map canvas")
    assert [each.inner_text() for each in page.locator(".token").all()] == list(trace.stack("cross").keys.texts)
    page.select_option("label:has-text('the token that attends') select", "2")
    page.wait_for_selector(".row-table caption:has-text('at 2 ')")
    layer, head = (int(number) for number in re.findall(r"\d+", page.locator(".place").inner_text())[:2])
    own = trace.layer(layer, "cross").weights[head, 2]
    for row in page.locator(".row-table").first.locator("tbody tr").all():
        at, raw, *_ = (cell.inner_text() for cell in row.locator("td").all())
        assert float(raw.replace("−", "-")) == pytest.approx(float(own[int(at)]), abs=3e-3)


def test_heads_colored_by_how_many_of_their_rows_are_certain(page, serving, minilm):
    page.goto(serving(minilm, "The minister wrote back to the schoolchildren at once, and they wrote to her.").address)
    page.wait_for_selector(".map canvas")
    page.select_option(".heads select", "certified")
    page.click("text=Certify some rows of every head")
    page.wait_for_selector("[role=gridcell][aria-label*='certified 1']", timeout=240_000)
    assert "color=certified" in page.evaluate("location.hash")
