"""The committed page is what its sources build, and whatever is put into it stays data."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from identiformer.page.html import built_page, data_of, json_element, render
from identiformer.page.summary import summarize

UI = Path(__file__).parents[2] / "ui"


@pytest.mark.skipif(not UI.is_dir(), reason="the sources of the page are not part of a source distribution")
def test_the_page_is_built_from_these_sources():
    names = ["index.html", "package.json", "package-lock.json", "sources.ts", "tsconfig.json", "vite.config.ts"]
    digest = hashlib.sha256()
    for name in sorted([*names, *(f"src/{path.name}" for path in (UI / "src").iterdir())]):
        digest.update(name.encode() + b"\0" + (UI / name).read_bytes() + b"\0")
    told = re.search('<meta name="sources" content="([0-9a-f]+)">', built_page())
    assert told is not None
    assert told[1] == digest.hexdigest(), "run `make page` and commit page.html"


def test_the_page_asks_nothing_of_the_network():
    page = built_page()
    assert not re.findall(r"""(?:src|href)=["']?https?:""", page)
    assert "default-src 'none'" in page
    assert "unsafe-eval" not in page


def test_token_text_cannot_leave_its_element():
    nasty = {"texts": ["</script><script>alert(1)</script>", "<!--", "\u202e", "\u2028"]}
    element = json_element("x", nasty)
    assert element.count("<") == 2
    assert json.loads(re.sub("<[^>]*>", "", element)) == nasty


def test_what_is_put_in_is_not_searched_for_marks():
    page = render("<b>", "<!--before-->", "<!--after-->", before="<!--after--><!--rest-->", after="<!--before-->")
    assert page.count("<!--after--><!--rest-->") == 1
    assert "<title>&lt;b&gt;</title>" in page


def test_the_summary_says_what_a_person_asks_first(minilm):
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
    assert len(json.dumps(data_of(summary, trace.stack()))) < 1_000_000
