"""The notebooks: complete outputs, links to released versions, and the same output when they run again."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SECONDS = re.compile(r"\d+(\.\d+)? s\b")


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def shown(cell):
    """The text that a cell shows, without times; a picture counts as such."""
    parts = []
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream" and output["name"] == "stdout":
            parts.append("".join(output["text"]))
        elif output["output_type"] in ("execute_result", "display_data"):
            data = output["data"]
            parts.append("picture" if "image/png" in data else "".join(data.get("text/plain", "")))
    return SECONDS.sub("# s", "".join(parts))  # how the stream was cut into outputs varies


def test_there_are_six_tutorials_in_the_contents():
    contents = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 6
    for path in NOTEBOOKS:
        assert f"({path.name})" in contents
        assert f"\n{path.stem}\n" in contents


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_without_errors(path):
    notebook = read(path)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert "error" not in kinds
    assert not any(output.get("name") == "stderr" for cell in code for output in cell["outputs"])
    assert any(shown(cell) for cell in code)
    assert path.stat().st_size < 400_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_colab_opens_a_released_version(path):
    repository = SETTINGS["project"]["urls"]["Homepage"].removeprefix("https://github.com/")
    released = SETTINGS["tool"]["hatch"]["version"]["fallback-version"]
    expected = f"https://colab.research.google.com/github/{repository}/blob/v{released}/docs/tutorials/{path.name}"
    links = re.findall(r"https://colab[^)\s]+", path.read_text(encoding="utf-8"))
    assert links == [expected]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")
def test_running_again_shows_the_same(path, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(path, 4)
    kept = [shown(cell) for cell in read(path)["cells"]]
    nbclient.NotebookClient(notebook, timeout=1500, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    again = [shown(cell) for cell in json.loads(nbformat.writes(notebook))["cells"]]
    assert again == kept
