"""What a person sees when something goes wrong: models that do not load, texts that are gone, a server that has ended."""

import threading

import pytest

from identiformer.errors import InputError
from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import MOST_TEXTS, Texts
from identiformer.models import load
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture
def tab(browser):
    """A page whose console may show that a request was rejected."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(60_000)
    yield page
    page.close()


def serve(model, load_other):
    texts = Texts(load_other, [model.name, "another"], {model.name: model})
    return LocalServer(texts, {"text": words(10), "pair": None, "model": model.name, "view": None})


def opened(page, server):
    page.goto(server.address)
    page.wait_for_selector(".row-answer:has-text('attends most')")
    return page


def choose_another_model(page):
    page.select_option(".text-form label:has-text('model') select", "another")
    page.wait_for_selector("text=Not run yet: the maps below are of the text before")
    page.click("button:text-is('Run')")


def test_a_model_that_cannot_be_loaded(model, tab):
    def missing(name):
        raise InputError(f"expected a model, got {name!r}, which is not here; download it first.")

    with serve(model, missing) as server:
        page = opened(tab, server)
        choose_another_model(page)
        page.wait_for_selector(".alert:has-text('download it first'):has-text('The maps below are of the text before')")
        assert page.locator(".stale .explorer").count() == 1


def test_loading_a_model_can_be_canceled(model, tab):
    over = threading.Event()

    def slow(name):
        over.wait(60)
        return model

    with serve(model, slow) as server:
        page = opened(tab, server)
        choose_another_model(page)
        page.wait_for_selector(".state:has-text('Running another')")
        assert page.locator(".stale .explorer").count() == 1, "while it loads"
        page.click(".state button:text-is('Cancel')")
        page.wait_for_selector(".alert:has-text('Canceled: the maps below are still those of the text before')")
        over.set()


def test_a_text_that_another_tab_has_replaced(model, tab, browser):
    with serve(model, lambda name: model) as server:
        page = opened(tab, server)
        page.wait_for_selector(".finding:has-text('is certified')")  # so that nothing requests this text any more
        other = browser.new_page()
        for start in range(MOST_TEXTS):
            other.goto(f"{server.address}#text={words(8, start + 1).replace(' ', '+')}")
            other.reload()
            other.wait_for_selector(".row-answer:has-text('attends most')")
        page.click(".token >> nth=5")
        page.wait_for_selector(".alert:has-text('no longer open')")
        assert page.locator(".row-table caption:has-text('at 5')").count() == 1, "what the page has is still shown"
        page.click("button:text-is('Run')")
        page.wait_for_selector(".alert", state="detached")
        page.click(".token >> nth=6")
        page.wait_for_selector(".row-table .ends")
        other.close()


def test_a_server_that_has_ended(model, tab):
    with serve(model, lambda name: model) as server:
        page = opened(tab, server)
        page.wait_for_selector(".finding:has-text('is certified')")
    page.click(".token >> nth=5")
    page.wait_for_selector(".alert:has-text('the explorer does not respond; check that its command is still running')")
    assert page.locator(".row-table caption:has-text('at 5')").count() == 1
    page.fill("textarea >> nth=0", words(5))
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".text-form .alert:has-text('the explorer does not respond')")


@pytest.mark.parametrize("codes", ["", "32, 10, 9, 32", "0xd800"])  # nothing, white space, half of a surrogate pair
def test_texts_that_are_no_texts(model, tab, codes):
    with serve(model, lambda name: model) as server:
        page = opened(tab, server)
        typed = f"area.value = String.fromCharCode({codes}); area.dispatchEvent(new Event('input', {{ bubbles: true }}));"
        page.locator("textarea").first.evaluate(f"area => {{ {typed} }}")
        page.click("button:text-is('Run')")
        page.wait_for_selector(".text-form .alert:has-text('expected')")
        assert page.locator(".stale .explorer").count() == 1
