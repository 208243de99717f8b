"""Columns, patterns, comparisons, moved weight and one token through the layers, in a real browser."""

import numpy as np
import pytest
from transformers import AutoConfig, AutoModelForCausalLM

import identiformer as idf
from identiformer.models import load
from identiformer.readings import moved_weight_sentences
from tests.browser import accessibility_violations
from tests.models.families import SERVED, build, word_tokenizer, words

TEXT = "The minister wrote back to the schoolchildren at once."
OTHER = "The president wrote back to the schoolchildren at once."


@pytest.fixture
def opened(serving, page, minilm):
    def open_page(view):
        page.goto(f"{serving(minilm, TEXT).address}#{view}")
        page.wait_for_selector(".map canvas")
        return page

    return open_page


def numbers(locator):
    return [float(cell.inner_text().replace("−", "-")) for cell in locator.all()]


def test_who_attends_to_a_token(opened, minilm):
    page = opened("layer=3&head=4&query=2")
    page.check("text=who attends to it")
    page.wait_for_selector("caption:has-text('Who attends to minister at 2')")
    weights = minilm.trace(TEXT).layer(3).recorded().weights[4, :, 2]
    shown = numbers(page.locator(".row-table td.raw"))
    assert shown == pytest.approx(sorted(weights.tolist(), reverse=True)[: len(shown)], abs=3e-3)
    page.wait_for_url(lambda url: "side=column" in url)
    page.wait_for_selector(".row-table td.low")  # as soon as the head is certified in the background
    low = idf.attention_reading(minilm.trace(TEXT), layers=3, heads=4).low.values[0, 0, :, 2]
    positions = [int(cell.inner_text()) for cell in page.locator(".row-table th small").all()]
    assert numbers(page.locator(".row-table td.low")) == pytest.approx(low[positions], abs=1 / 255 + 3e-3)
    assert page.locator(".token[data-certain=solid]").count() > 0
    answer = page.locator(".row-answer").inner_text()
    assert f"receives {weights.mean():.0%} of a row's weight on average" in answer
    assert "certified)" in answer
    page.click(".flow.column .token >> nth=0")
    page.wait_for_selector("caption:has-text('Who attends to [CLS] at 0')")
    assert not accessibility_violations(page)


@pytest.mark.slow
def test_heads_are_found_by_pattern_and_category(opened, minilm):
    page = opened("layer=3&head=4")
    page.select_option(".finder label:has-text('pattern') select", "previous")
    patterns = idf.attention_patterns(minilm.trace(TEXT))
    shares = patterns.share.sel(pattern="previous").values
    expected = sorted(((share, layer, head) for (layer, head), share in np.ndenumerate(shares) if share >= 0.4), reverse=True)
    listed = [button.inner_text().split()[0] for button in page.locator(".finder li button").all()]
    assert listed == [f"{layer + 1}.{head}" for _, layer, head in expected]
    page.click(".finder li button >> nth=0")
    page.wait_for_selector(f"text=Layer {expected[0][1] + 1}, head {expected[0][2]}")
    page.select_option(".finder label:has-text('category') select", index=1)
    category = page.locator(".finder label:has-text('category') select").input_value()
    page.select_option(".finder label:has-text('pattern') select", "")
    page.wait_for_selector(f".finder [role=status]:has-text('{page.locator('.finder li').count()} head')")
    page.wait_for_url(lambda url: f"category={category}" in url)


def test_two_heads_and_their_difference(opened, minilm):
    page = opened("layer=1&head=2&open=compare&otherLayer=2&otherHead=8")
    page.wait_for_selector(".triple .map >> nth=2")
    trace = minilm.trace(TEXT)
    first, second = trace.layer(1).recorded().weights[2], trace.layer(2).recorded().weights[8]
    moved = float((first - second).abs().sum(-1).mean() / 2)
    said = page.locator(".compare [role=status]").inner_text()
    assert float(said.split("differ in ")[1].split("%")[0]) == pytest.approx(100 * moved, abs=0.3)
    page.select_option(".compare label:has-text('head') select", "2")
    page.select_option(".compare label:has-text('layer') select", "1")
    page.wait_for_selector(".compare [role=status]:has-text('differ in 0.0%')")


@pytest.mark.slow
def test_two_texts_are_aligned(opened, minilm):
    page = opened("layer=1&head=2&open=compare&against=text")
    page.fill(".compare textarea", OTHER + " Again.")
    page.click("text=Run and compare")
    page.wait_for_selector(".triple .map >> nth=2")
    tokens, there = minilm.trace(TEXT).tokens, minilm.trace(OTHER + " Again.").tokens
    assert len(there) == len(tokens) + 2
    assert "tokens correspond" not in page.locator(".compare [role=status]").inner_text()  # minister stands for president
    page.fill(".compare textarea", "Quite different words")
    page.click("text=Run and compare")
    page.wait_for_selector(".compare [role=status]:has-text('tokens correspond')")


def test_two_models_side_by_side(serving, page):
    first = load(build("bert", SERVED["bert"]), word_tokenizer())
    second = load(build("roberta", {**SERVED["roberta"], "num_hidden_layers": 3}), word_tokenizer())
    text = words(12)
    page.goto(f"{serving(first, text, another=second).address}#layer=2&head=1&open=compare&against=model")
    page.click("text=Run and compare")
    page.wait_for_selector(".triple .map >> nth=2")
    page.select_option(".compare label:has-text('layer') select", "3")
    page.select_option(".compare label:has-text('head') select", "0")
    page.wait_for_selector(".triple figcaption:has-text('layer 3, head 0')")
    captions = page.locator(".triple figcaption").all_inner_texts()
    assert captions[0].startswith("layer 2, head 1")
    assert second.name in captions[1]
    ours, theirs = first.trace(text), second.trace(text)
    assert ours.tokens == theirs.tokens
    difference = ours.layer(2).recorded().weights[1] - theirs.layer(3).recorded().weights[0]
    said = page.locator(".compare [role=status]").inner_text()
    shown = float(said.split("differ in ")[1].split("%")[0])
    assert shown == pytest.approx(50 * float(difference.abs().sum(-1).mean()), abs=0.15)


def test_small_maps_of_all_heads(opened, minilm):
    page = opened("layer=3&head=4&color=maps")
    page.wait_for_selector(".heads td canvas[width='48'] >> nth=71")
    read = "canvas => [canvas.width, ...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    for layer, head in ((1, 0), (6, 5)):
        cell = page.locator(f"[role=gridcell][aria-label^='layer {layer}, head {head}:']")
        side, *pixels = cell.locator("canvas").evaluate(read)
        red = np.array(pixels).reshape(side, side, 4)[..., 0]  # the larger the weight, the less red
        weights = minilm.trace(TEXT).layer(layer).recorded().weights[head].numpy()
        at = np.arange(side) * len(weights) // side  # several pixels per token
        expected = weights[np.ix_(at, at)]
        assert np.corrcoef(red.ravel(), -np.sqrt(expected.ravel()))[0, 1] > 0.95
        assert red.flat[expected.argmax()] == red.min()
    cell.click()
    page.wait_for_selector("text=Layer 6, head 5")
    with page.expect_download() as download:
        page.click("[aria-label='heads as SVG']")
    assert download.value.path().read_text(encoding="utf-8").count("<image") == 72
    assert not accessibility_violations(page)


@pytest.mark.slow
def test_one_token_through_all_layers(opened):
    page = opened("layer=1&head=2&query=2&open=layers")
    page.wait_for_selector(".strip >> nth=1")
    assert page.locator(".strip").count() == 2
    assert "minister" in page.locator(".layers p").first.inner_text()


def test_weight_is_moved_by_choice_and_by_dragging(opened, minilm):
    page = opened("layer=4&head=3&query=2")
    page.click("text=Move its weight elsewhere")
    page.wait_for_selector(".section.move > summary:focus")
    assert page.locator(".section.move > summary").bounding_box()["y"] < page.viewport_size["height"]
    page.select_option(".move select >> nth=0", "0")  # columns are positions here
    page.select_option(".move select >> nth=1", "3")
    page.click("text=Run the model")
    page.wait_for_selector(".verdict")
    expected = idf.move_weight(minilm, minilm.trace(TEXT), 4, 3, 2, source=0, target=3)
    assert [line.inner_text() for line in page.locator(".outcome p").all()][1:] == moved_weight_sentences(expected)
    page.drag_and_drop(".movable li[data-key='0']", ".movable li >> nth=4")
    page.wait_for_selector(".movable li.to >> nth=0")
    target = int(page.locator(".movable li >> nth=4").get_attribute("data-key"))
    expected = idf.move_weight(minilm, minilm.trace(TEXT), 4, 3, 2, source=0, target=target)
    page.wait_for_selector(f".outcome p:has-text('{moved_weight_sentences(expected)[1][:30]}')")
    assert not accessibility_violations(page)


def test_predictions_before_and_after(serving, page):
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SERVED["llama"])).eval()
    model = load(network, word_tokenizer())
    page.goto(f"{serving(model, words(9)).address}#layer=1&head=0&query=5&open=move")
    page.click("text=Run the model")
    page.wait_for_selector(".predictions table >> nth=1")
    assert page.locator(".predictions tbody tr").count() == 10
