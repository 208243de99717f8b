"""The Python code of every page runs, block after block, on small data in place of the reader's."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
SENTENCE = "The baker carried the loaves to the island, and the minister wrote back about the ferry."
TESTED_ELSEWHERE = {"interoperability", "models", "yardsticks"}
BEFORE = {
    "": f"import torch\nimport identiformer as idf\nmodel = idf.load('minilm')\ntext = {SENTENCE!r}\nlong_text = text * 14",
    "ambiguity": "trace = model.trace(text * 3)",
    "corpus_runs": (
        "for part in (1, 2):\n    idf.run([text] * 64, model, ['effective_attention'], out=f'runs/part{part}', part=f'{part}/2')"
    ),
    "large_models": (
        "from tests.docs.folders import write_folders\n"
        "quantized_model, tokenizer = write_folders('folder_of_shards', 'adapter_folder')"
    ),
    "token_identifiability": (
        "hidden, inputs, examples = torch.randn(40, 8), torch.randn(40, 8), torch.arange(40) // 4\n"
        "other_hidden, other_inputs, other_examples = hidden, inputs, examples"
    ),
}
"""What a page takes for granted: of every page, and of some."""
SMALLER = {"model.length, 1000": "model.length, 3"}
"""Sizes in the text that small data cannot fill."""
PAGES = sorted(page.stem for page in DOCS.glob("*.md") if BLOCK.search(page.read_text(encoding="utf-8")))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with a corpus in the layout of GLUE, and an article of Wikipedia."""
    generator = np.random.default_rng(0)
    people, things = ("baker", "minister", "captain", "islander"), ("loaves", "letters", "boats", "ropes")

    def row(number):
        one, other = (f"The {generator.choice(people)} counted {generator.choice(things)}." for _ in range(2))
        return f"{number % 2}\t{number}\t{number}\t{one}\t{other}"

    folder = tmp_path / "glue" / "MRPC"
    folder.mkdir(parents=True)
    for name, rows in (("train", 24), ("dev", 24), ("test", 8)):
        lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *(row(number) for number in range(rows))]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    article = " = Ferry = \n\n " + f"{SENTENCE.replace(',', ' ,').replace('.', ' .')} " * 60
    (tmp_path / "wiki.test.raw").write_text(article + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [name for name in PAGES if name not in TESTED_ELSEWHERE])
@pytest.mark.filterwarnings("default")
def test_the_code_of_a_page_runs(page, data):
    names: dict = {"__name__": page}
    for block in (BEFORE[""], BEFORE.get(page, ""), *BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))):
        for size, smaller in SMALLER.items():
            block = block.replace(size, smaller)
        exec(block, names)


def test_pages_that_other_tests_run_exist():
    assert set(PAGES) >= TESTED_ELSEWHERE
    assert set(PAGES) >= BEFORE.keys() - {""}
