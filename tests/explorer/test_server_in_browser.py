"""The explorer in a real browser: run a text, certify a row, run the patched model, compute attribution."""

import re
from collections import Counter

import numpy as np
import pytest

import identiformer as idf
from identiformer.models import load
from identiformer.readings.heads import head_categories
from tests.browser import accessibility_violations
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words

SENTENCE = "The schoolchildren wrote to the minister, and the minister wrote back to the schoolchildren at once. "
TEXT = SENTENCE * 2


@pytest.fixture
def opened(serving, page, minilm):
    server = serving(minilm, TEXT)
    page.goto(server.address)
    page.wait_for_selector(".map canvas")
    return page


# A row has alternatives only if it sees more tokens than the head width, 32 and 64.
@pytest.mark.parametrize(("name", "times", "row"), [("minilm", 2, 4), pytest.param("smollm2", 5, 85, marks=pytest.mark.slow)])
def test_a_selected_row_is_certified_at_once_and_the_model_run_with_an_alternative(serving, page, request, name, times, row):
    page.goto(serving(request.getfixturevalue(name), SENTENCE * times).address)
    page.click(f".token >> nth={row}")
    answer = page.locator(".row-answer", has_text="A patched run with an alternative row")
    answer.wait_for()
    text = answer.inner_text()
    assert f"at {row} attends most to" in text
    assert "That key contributes" in text
    patched, control = (float(number) for number in re.findall(r"output by up to ([\d.e-]+) .*size: ([\d.e-]+)\)", text)[0])
    assert patched < control / 5
    assert "does not show which of the two rows was used" in text
    assert page.locator(".row-table .alternative").count() > 5


@pytest.mark.slow
def test_attribution_of_one_token(opened, minilm):
    opened.click(".token >> nth=4")
    opened.click("summary:text-is('Where did it come from')")
    opened.wait_for_selector("text=This takes about")
    opened.click(".attribution .progress button")
    opened.wait_for_selector(".attribution .progress", state="detached")
    opened.click(".token >> nth=5")
    opened.wait_for_selector(".attribution-picture", timeout=240_000)
    shares = [float(cell.inner_text().rstrip("%")) / 100 for cell in opened.locator(".attribution .self-contribution").all()]
    exact = idf.token_attribution(minilm, TEXT, exact=True, targets=5)
    error = idf.token_attribution(minilm, TEXT, targets=5).error.values[:, 0, 5]
    assert (np.abs(np.array(shares) - exact.self_contribution.values[:, 0]) <= 4 * error + 1e-3).all()
    assert "open=attribution" in opened.url


def test_another_text_and_a_pair(opened):
    opened.fill("textarea >> nth=0", "He said the pie was his.")
    opened.wait_for_selector("text=Not run yet")
    opened.click("text=+ second text")
    opened.fill("textarea >> nth=1", "She did not agree.")
    opened.keyboard.press("Control+Enter")
    opened.wait_for_selector("text=minilm, 15 tokens")
    assert opened.locator("text=Not run yet").count() == 0
    opened.wait_for_url(lambda url: "pair=She+did+not+agree" in url)
    link = opened.url
    opened.goto("about:blank")
    opened.goto(link)
    opened.wait_for_selector("text=minilm, 15 tokens")
    assert opened.locator("textarea").nth(1).input_value() == "She did not agree."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessibility(opened, theme):
    opened.click(".token >> nth=4")
    opened.wait_for_selector(".row-answer:has-text('patched run')")
    opened.select_option(".masthead select", theme)
    opened.wait_for_selector(f".identiformer[data-theme='{theme}']")
    assert accessibility_violations(opened) == []


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["tiny", "smollm2"])
def test_a_long_text_is_shown_in_windows(serving, page, request, monkeypatch, real):
    if real:
        model, text = request.getfixturevalue("smollm2"), TEXT
    else:
        model, text = load(build("llama", {**SERVED["llama"], "max_position_embeddings": 256}), word_tokenizer()), words(50)
    monkeypatch.setattr(model, "memory", 0)
    monkeypatch.setattr("identiformer.explorer.texts.ROWS_IN_VIEW", 16)
    tokens = len(model.trace(text, form="factored").tokens)
    exact = model.trace(text, form="factored").layer(2).effective().rows(1, [tokens - 7])[0]
    fetched = []
    page.on("request", lambda request: fetched.append(request.url.rsplit("/layers/", 1)[-1]))
    page.goto(serving(model, text).address + "#layer=2&head=1")
    page.wait_for_selector(f"output:has-text('0 to 15 of {tokens}')")
    page.wait_for_selector(".map canvas")
    assert page.locator(".map").count() == 1
    page.click(f".token >> nth={tokens - 7}")
    page.wait_for_selector(f".row-table caption:has-text('at {tokens - 7}')")
    page.wait_for_selector(f"output:has-text('{tokens - 16} to {tokens - 1} of {tokens}')")
    assert page.locator(".token.lit").get_attribute("data-column") == str(tokens - 7)
    for row in page.locator(".row-table tbody tr").all():
        position, weight = row.locator("th small").inner_text(), row.locator("td.weight").inner_text()
        assert float(weight.replace("−", "-")) == pytest.approx(
            float(exact[int(position)]), abs=float(exact.abs().max()) / 100 + 5e-4
        )
    for key in "jjkkkkkkkkkkkk":
        page.keyboard.press(key)
    page.wait_for_selector(f".row-table caption:has-text('at {tokens - 17}')")
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
    page.wait_for_selector(".row-table caption:has-text('at 2')")
    layer, head = (int(number) for number in re.findall(r"\d+", page.locator(".selected-head").inner_text())[:2])
    exact = trace.layer(layer, "cross").weights[head, 2]
    for row in page.locator(".row-table").first.locator("tbody tr").all():
        position, raw = row.locator("th small").inner_text(), row.locator("td.weight").inner_text()
        assert float(raw.replace("−", "-")) == pytest.approx(float(exact[int(position)]), abs=3e-3)


@pytest.mark.slow
def test_the_page_opens_with_the_reading_and_refines_it(serving, page, minilm):
    text = "The minister wrote back to the schoolchildren at once."
    page.goto(serving(minilm, text).address)
    page.wait_for_selector(".finding:has-text('Before certification')")
    assert "the output of a head determines every weight" in page.locator(".finding").inner_text()
    page.wait_for_selector(".finding:has-text('is certified (present'):has-text('attributed to the token')", timeout=240_000)
    reading = idf.read(minilm, text)
    assert reading.overview()[0] in page.locator(".finding").inner_text()
    counts = Counter(head_categories(reading.result).values.ravel().tolist())
    listed = "\n".join(page.locator(".categories li").all_inner_texts())
    shown = {name: int(count) for count, name in re.findall(r"^\s*(\d+) (\w+)", listed, re.MULTILINE)}
    assert shown == counts
    page.select_option(".heads select", "readable")
    share = reading.result.readable.values[2, 5]
    page.wait_for_selector(f"[role=gridcell][aria-label='layer 3, head 5: readable {share:.3f}']")


def test_another_map_is_shown_next_to_raw_attention(opened):
    opened.click("summary:text-is('Other maps')")
    opened.select_option(".comparison select", "contribution")
    opened.wait_for_selector(".comparison .map[data-kind=other] canvas")
    assert opened.locator(".comparison .map").count() == 2
    assert "compare=contribution" in opened.url
    assert not accessibility_violations(opened)
    opened.select_option(".comparison select", "")
    opened.wait_for_selector(".comparison .map", state="detached")
