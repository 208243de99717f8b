"""What pages tell readers to type exists: commands, options and modules."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from identiformer.cli import app

ROOT = Path(__file__).parents[2]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
CLONE_ONLY = re.compile(r"python -m (studies|benchmarks|docs|tests|release)\b")


def text_of(page):
    text = page.read_text(encoding="utf-8")
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"]) if page.suffix == ".ipynb" else text


def printed(page):
    """The commands of a page, in blocks, where a backslash continues a line, and in sentences."""
    text = text_of(page)
    lines = "".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    lines += re.findall(r"`([^`]+)`", BLOCK.sub("", text).replace("\n", " "))
    return [line for line in lines if line.startswith("identiformer ")]


def test_commands_are_found_in_blocks_and_in_sentences():
    assert "identiformer inspect --out report.html" in printed(ROOT / "docs" / "start.md")
    assert "identiformer inspect 'A text of your own.'" in printed(ROOT / "README.md")
    assert any("rollout:raw" in line and "--yardsticks" in line for line in printed(ROOT / "docs" / "comparison_results.md"))
    assert "identiformer results run" in printed(ROOT / "docs" / "tutorials" / "my_corpus.ipynb")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page):
    for line in printed(page):
        name, *arguments = shlex.split(line, comments=True)[1:]
        if name == "--version":
            continue
        assert name in COMMANDS, f"{page.name}: `{line}`"
        options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        unknown = {argument for argument in arguments if argument.startswith("--")} - options
        assert not unknown, f"{page.name}: `{line}`"


def test_the_wheel_and_the_tutorials_name_no_module_that_only_a_clone_has():
    """And the changelog says where one does."""
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.html"), *TUTORIALS):
        found = CLONE_ONLY.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name}: `{found and found[0]}`"
    for entry in text_of(ROOT / "CHANGELOG.md").split("\n- "):
        assert not CLONE_ONLY.search(entry) or "in a clone" in entry.lower(), entry
