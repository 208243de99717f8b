"""The explorer in a real browser: run a text, certify a row, run the patched model, compute attribution."""

import re

import pytest

import identiformer as idf
from identiformer.models import load
from tests.browser import accessibility_violations
from tests.models.families import ENCODER_DECODERS, build, word_tokenizer, words

SENTENCE = "The schoolchildren wrote to the minister, and the minister wrote back to the schoolchildren at once. "
TEXT = SENTENCE * 2


@pytest.fixture
def opened(serving, page, minilm):
    server = serving(minilm, TEXT)
    page.goto(server.address)
    page.wait_for_selector(".map canvas")
    return page


# A row has alternatives only if it sees more tokens than the head width, 32 and 64.
@pytest.mark.parametrize(("name", "times", "row"), [("minilm", 2, 4), ("smollm2", 5, 85)])
def test_a_row_is_certified_and_the_model_run_with_an_alternative(serving, page, request, name, times, row):
    page.goto(serving(request.getfixturevalue(name), SENTENCE * times).address)
    page.wait_for_selector(".map canvas")
    page.click(f".token >> nth={row}")
    page.click("text=Certify this row")
    page.wait_for_selector(".intervals")
    assert "attends most to" in page.locator(".certificate p").first.inner_text()
    page.click("text=Run the model with it")
    page.wait_for_selector(".patched-run")
    patched, control = (float(bar.inner_text()) for bar in page.locator(".patched-run-bar > span:last-child").all())
    assert patched < control / 5


def test_attribution_of_a_decoder(serving, page, smollm2):
    page.goto(serving(smollm2, "The minister wrote back.").address)
    page.click(".token >> nth=1")
    page.click("button:text-is('Compute attribution')")
    page.wait_for_selector(".attribution-picture", timeout=240_000)
    shares = [float(cell.inner_text().rstrip("%")) for cell in page.locator(".attribution .self-contribution").all()]
    assert len(shares) == 30
    assert shares[0] > shares[-1]
    assert {"back", "."}.isdisjoint(page.locator(".attribution td.words bdi").all_inner_texts()), "later tokens do not contribute"


def test_attribution_after_a_canceled_job(opened):
    opened.click(".token >> nth=4")
    opened.click("button:text-is('Compute attribution')")
    opened.click(".progress button")
    opened.wait_for_selector("button:text-is('Compute attribution')")
    opened.click("button:text-is('Compute attribution')")
    opened.wait_for_selector(".attribution-picture", timeout=240_000)
    shares = [float(cell.inner_text().rstrip("%")) for cell in opened.locator(".attribution .self-contribution").all()]
    assert len(shares) == 6
    assert shares[0] > 30 > shares[-1]


def test_another_text_and_a_pair(opened):
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
def test_accessibility(opened, theme):
    opened.click(".token >> nth=4")
    opened.click("text=Certify this row")
    opened.wait_for_selector(".intervals")
    opened.select_option(".masthead select", theme)
    opened.wait_for_selector(f".identiformer[data-theme='{theme}']")
    assert accessibility_violations(opened) == []


def test_a_long_text_is_shown_in_windows(serving, page, monkeypatch, smollm2):
    monkeypatch.setattr("identiformer.models.model.WEIGHTS_BUDGET", 0)
    monkeypatch.setattr("identiformer.explorer.texts.ROWS_IN_VIEW", 16)
    tokens = len(smollm2.trace(TEXT, form="factored").tokens)
    exact = smollm2.trace(TEXT, form="factored").layer(2).effective().rows(1, [tokens - 7])[0]
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
        position, weight = (cell.inner_text() for cell in row.locator("td").all())
        assert float(weight.replace("−", "-")) == pytest.approx(
            float(exact[int(position)]), abs=float(exact.abs().max()) / 100 + 5e-4
        )
    for key in "jjkkkkkkkkkkkk":
        page.keyboard.press(key)
    page.wait_for_selector(f".row-table caption:has-text('at {tokens - 17} ')")
    assert {path for path in fetched if path.startswith("2/")} == {"2/rows/0", f"2/rows/{tokens - 16}", f"2/rows/{tokens - 25}"}


def test_the_attention_types_of_an_encoder_decoder(serving, page):
    model = load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    trace = model.trace(words(9), words(5))
    page.goto(serving(model, words(9), words(5)).address)
    page.wait_for_selector(".map canvas")
    page.select_option("label:has-text('attention type') select", "cross")
    page.wait_for_selector(".masthead :text('cross attention')")
    page.wait_for_selector(".map canvas")
    assert [token.inner_text() for token in page.locator(".token").all()] == list(trace.stack("cross").keys.texts)
    page.select_option("label:has-text('query token') select", "2")
    page.wait_for_selector(".row-table caption:has-text('at 2 ')")
    layer, head = (int(number) for number in re.findall(r"\d+", page.locator(".selected-head").inner_text())[:2])
    exact = trace.layer(layer, "cross").weights[head, 2]
    for row in page.locator(".row-table").first.locator("tbody tr").all():
        position, raw, *_ = (cell.inner_text() for cell in row.locator("td").all())
        assert float(raw.replace("−", "-")) == pytest.approx(float(exact[int(position)]), abs=3e-3)


def test_the_page_opens_with_the_reading(serving, page, minilm):
    text = "The minister wrote back to the schoolchildren at once."
    page.goto(serving(minilm, text).address)
    sentence = "contributes to what its head writes"
    page.wait_for_selector(f".finding:has-text('{sentence}')")
    share = idf.attention_reading(minilm.trace(text), certify=False).contributing.values[0, 2]
    page.wait_for_selector(f"[role=gridcell][aria-label='layer 1, head 2: contributing {share:.3f}']")
    assert page.locator(".finding:has-text('about the token')").count() == 0
    page.select_option(".heads select", "readable")
    page.click("text=Compute the readable share")
    page.wait_for_selector(".finding:has-text('about the token it points to')", timeout=240_000)
    # In layer 1, all content is the token's own.
    page.wait_for_selector(f"[role=gridcell][aria-label='layer 1, head 2: readable {share:.3f}']")
    assert "readable" in page.locator(".selected-head").inner_text()


def test_heads_colored_by_certified_share(serving, page, minilm):
    page.goto(serving(minilm, "The minister wrote back to the schoolchildren at once, and they wrote to her.").address)
    page.wait_for_selector(".map canvas")
    page.select_option(".heads select", "certified_rows")
    page.click("text=Certify four rows of every head")
    page.wait_for_selector("[role=gridcell][aria-label*='certified rows 1']", timeout=240_000)
    assert "color=certified_rows" in page.evaluate("location.hash")
