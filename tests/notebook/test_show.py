"""A trace as the output of a notebook cell."""

import json
import sys

import pytest

import identiformer as idf
from identiformer.errors import InputError, MissingPackageError

TEXT = "The islanders wrote to the minister, and the minister wrote back. " * 3

# What a notebook does with a widget: it imports the script and passes it a model and an element.
NOTEBOOK = """<!doctype html><meta charset=utf-8><div id=cell></div><script type=module>
const values = {page: PAGE};
const model = {get: (name) => values[name], set: (name, value) => { values[name] = value; }, save_changes: () => {}};
window.values = values;
const script = URL.createObjectURL(new Blob([SCRIPT], {type: "text/javascript"}));
(await import(script)).default.render({model, el: document.getElementById("cell")});
</script>"""


def test_the_widget_shows_the_page_and_reports_the_selection(page, minilm, tmp_path):
    widget = idf.show(minilm.trace(TEXT), layer=2, head=3)
    script = json.dumps(widget._esm).replace("<", "\\u003c")
    content = json.dumps(widget.page).replace("<", "\\u003c")
    target = tmp_path / "notebook.html"
    target.write_text(NOTEBOOK.replace("PAGE", content).replace("SCRIPT", script), encoding="utf-8")
    page.goto(f"file://{target}")
    frame = page.frame_locator("iframe")
    frame.locator(".selected-head", has_text="Layer 2, head 3").wait_for()
    frame.locator(".token").nth(4).click()
    page.wait_for_function("() => window.values.view?.query === 4")
    height = page.evaluate("document.querySelector('iframe').offsetHeight")
    assert height > 900


def test_a_missing_package_is_reported_with_the_command_that_installs_it(minilm, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "identiformer.notebook.widget", raising=False)
    with pytest.raises(MissingPackageError, match=r"pip install 'identiformer\[notebook\]'"):
        idf.show(minilm.trace(TEXT))


def test_selections_that_a_trace_does_not_have_raise(minilm):
    trace = minilm.trace("The boat left.")
    for wrong, message in (({"layer": 9}, "layer"), ({"head": 12}, "head from 0 to 11, got 12"), ({"query": -1}, "query from 0")):
        with pytest.raises(InputError, match=message):
            idf.show(trace, **wrong)
