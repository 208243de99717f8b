"""Columns, patterns, comparisons, moved weight and one token through the layers, in a real browser."""

import numpy as np
import pytest
from transformers import AutoConfig, AutoModelForCausalLM

import identiformer as idf
from identiformer.models import load
from tests.browser import accessibility_violations
from tests.models.families import SERVED, word_tokenizer, words

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


@pytest.mark.slow
def test_one_token_through_all_layers(opened):
    page = opened("layer=1&head=2&query=2&open=layers")
    page.wait_for_selector(".strip >> nth=1")
    assert page.locator(".strip").count() == 2
    assert "minister" in page.locator(".layers p").first.inner_text()


def test_weight_is_moved_by_choice_and_by_dragging(opened, minilm):
    page = opened("layer=4&head=3&query=2&open=move")
    page.select_option(".move select >> nth=0", "0")  # columns are positions here
    page.select_option(".move select >> nth=1", "3")
    page.click("text=Run the model")
    page.wait_for_selector(".verdict")
    expected = idf.move_weight(minilm, minilm.trace(TEXT), 4, 3, 2, source=0, target=3)
    assert [line.inner_text() for line in page.locator(".outcome p").all()][1:] == expected.sentences()
    page.drag_and_drop(".movable li[data-key='0']", ".movable li >> nth=4")
    page.wait_for_selector(".movable li.to >> nth=0")
    target = int(page.locator(".movable li >> nth=4").get_attribute("data-key"))
    expected = idf.move_weight(minilm, minilm.trace(TEXT), 4, 3, 2, source=0, target=target)
    page.wait_for_selector(f".outcome p:has-text('{expected.sentences()[1][:30]}')")
    assert not accessibility_violations(page)


def test_predictions_before_and_after(serving, page):
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SERVED["llama"])).eval()
    model = load(network, word_tokenizer())
    page.goto(f"{serving(model, words(9)).address}#layer=1&head=0&query=5&open=move")
    page.click("text=Run the model")
    page.wait_for_selector(".predictions table >> nth=1")
    assert page.locator(".predictions tbody tr").count() == 10
