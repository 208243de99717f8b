"""Images and generated answers in the explorer's page."""

import pytest
from transformers import AutoConfig, AutoModelForCausalLM

import identiformer as idf
from identiformer.errors import InputError
from identiformer.explorer.texts import Texts
from identiformer.models import load
from identiformer.models.generation.settings import Generation
from identiformer.report import write_report
from tests.browser import accessibility_violations
from tests.models.families import SERVED, word_tokenizer, words
from tests.models.tiny_vit import save_picture, save_tiny_vit


@pytest.fixture
def vision(tmp_path):
    model = idf.load(save_tiny_vit(tmp_path))
    return model, idf.open_picture(model, save_picture(tmp_path / "ball.png"))


@pytest.fixture
def language_model():
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SERVED["llama"])).eval()
    return load(network, word_tokenizer())


def test_a_row_over_the_picture(serving, page, vision):
    model, picture = vision
    page.goto(f"{serving(model, '', picture=picture).address}#layer=2&head=1&query=7")
    page.wait_for_selector(".patches rect")
    weights = model.trace(picture.pixels).layer(2).recorded().weights[1]
    for position, rect in enumerate(page.locator(".patches rect").all(), start=1):
        shown = float(rect.locator("title").text_content().split(": ")[1])
        assert shown == pytest.approx(float(weights[7, position]), abs=2e-3)
    assert page.locator(".patches image").get_attribute("href").startswith("data:image/png;base64,")
    page.click(".patches rect[data-position='3']")
    page.wait_for_selector(".row-table caption:has-text('Row of 0,2 at 3')")
    page.locator(".patches").press("ArrowDown")
    page.wait_for_selector(".row-table caption:has-text('Row of 1,2 at 7')")
    page.wait_for_selector("text=A patched run", timeout=20_000)  # the image is there for it
    assert not accessibility_violations(page)


def test_a_vision_model_without_an_image(vision):
    model, _ = vision
    with pytest.raises(InputError, match="start the explorer with --image FILE"):
        Texts(lambda name: model, [model.name], {model.name: model}).open("a text", None, model.name)


def test_steps_of_a_generation(serving, page, language_model):
    prompt = words(6)
    answer = language_model.generate(prompt, max_new_tokens=4)
    page.goto(serving(language_model, prompt, generation=Generation(False, 4)).address)
    page.wait_for_selector(".steps input[type=range]")
    slider = page.locator(".steps input[type=range]")
    for step, position in enumerate(answer.positions):
        slider.fill(str(step))
        page.wait_for_selector(f".steps output:has-text('{step + 1} of {len(answer.probabilities)}')")
        page.wait_for_selector(f".row-table caption:has-text('at {position}')")
        said = page.locator(".steps [role=status]").inner_text()
        assert f"probability {answer.probabilities[step]:.1%}" in said
    page.click("text=What did it draw on?")
    page.wait_for_selector(".flow.sources")
    share = idf.answer_attribution(language_model, answer).share.isel(step=-1).values
    assert f"It drew {share[: answer.start].sum():.1%} on the prompt" in page.locator(".steps p").last.inner_text()
    assert page.locator(".sources .token.answer").count() == len(answer.tokens) - answer.start
    assert page.locator("textarea").first.input_value() == prompt
    assert not accessibility_violations(page)


@pytest.mark.slow
def test_the_report_of_an_answer_has_its_steps(page, language_model, tmp_path):
    answer = language_model.generate(words(6), max_new_tokens=3)
    passage = idf.Passage.of(language_model, answer)
    reading, attribution = idf.read(language_model, passage, certify=False), idf.answer_attribution(language_model, passage)
    path = write_report(reading, tmp_path / "answer.html", passage, (answer, attribution))
    page.context.set_offline(True)
    page.goto(f"file://{path}")
    page.locator(".steps input[type=range]").fill("1")
    page.wait_for_selector(f".row-table caption:has-text('at {answer.start}')")
    assert page.locator(".flow.sources .token.answer").count() == 3
    heights = page.locator(".flow.sources .token").evaluate_all("tokens => tokens.map(token => token.offsetHeight)")
    assert len(set(heights)) == 1
    assert page.locator("text=What did it draw on?").count() == 0


def test_a_pair_is_not_a_prompt(language_model):
    texts = Texts(
        lambda name: language_model, [language_model.name], {language_model.name: language_model}, generation=Generation()
    )
    with pytest.raises(InputError, match="expected one prompt, got a pair of texts"):
        texts.open("a", "b", language_model.name)
