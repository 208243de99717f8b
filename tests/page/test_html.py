"""The committed page matches its sources, and whatever is put into it stays data."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import identiformer.page
from identiformer.page.html import PAGE, data_elements, json_element, render
from identiformer.page.summary import summarize

UI = Path(__file__).parents[2] / "ui"
BUILT = Path(identiformer.page.__file__).with_name("page.html").read_text(encoding="utf-8")


@pytest.mark.skipif(not UI.is_dir(), reason="the sources of the page are not part of a source distribution")
def test_the_page_is_built_from_these_sources():
    names = ["index.html", "package.json", "package-lock.json", "sources.ts", "tsconfig.json", "vite.config.ts"]
    digest = hashlib.sha256()
    sources = [path.relative_to(UI).as_posix() for path in (UI / "src").rglob("*") if path.is_file()]
    for name in sorted([*names, *sources]):
        digest.update(name.encode() + b"\0" + (UI / name).read_bytes() + b"\0")
    built_from = re.findall('<meta name="sources" content="([0-9a-f]+)">', BUILT)
    assert built_from == [digest.hexdigest()], "run `make page` and commit page.html"


def test_the_page_needs_no_network():
    assert not re.findall(r"""(?:src|href)=["']?https?:""", BUILT)
    assert "default-src 'none'" in BUILT
    assert "unsafe-eval" not in BUILT


def test_the_policy_allows_the_rendered_script():
    page = render(PAGE, title="x", first="", rest="")
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_token_text_cannot_leave_its_element():
    nasty = {"texts": ["</script><script>alert(1)</script>", "<!--", "\u202e", "\u2028"]}
    element = json_element("x", nasty)
    assert element.count("<") == 2
    assert json.loads(re.sub("<[^>]*>", "", element)) == nasty


def test_values_are_escaped_and_not_evaluated():
    page = render(PAGE, title="<b>{{ 7 * 7 }}", first=json_element("x", "{% raw %}"), rest="<script>")
    assert "<title>&lt;b&gt;{{ 7 * 7 }}</title>" in page
    assert '"{% raw %}"' in page
    assert page.count("&lt;script&gt;") == 1


def test_the_summary_has_tokens_words_and_numbers(minilm):
    trace = minilm.trace("He said the childrens pie was his.", "She did not agree.")
    summary = summarize(trace)
    tokens = summary["queries"]
    assert summary["keys"] is None
    assert (len(summary["layers"]), summary["heads"]) == (6, 12)
    assert tokens["texts"][0] == "[CLS]"
    assert tokens["special"][0]
    assert tokens["words"][0] is None
    pieces = [text for text, word in zip(tokens["texts"], tokens["words"], strict=True) if word == 3]
    assert "".join(pieces).replace("##", "") == tokens["word_texts"][3] == "childrens"
    assert tokens["word_texts"][8] == "She"
    assert set(summary["numbers"]) == {"null_mass", "correlation", "nullity"}
    assert len("".join(data_elements(summary, trace.stack()).values())) < 1_000_000
