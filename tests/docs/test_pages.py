"""The documentation matches the code: generated pages, links, examples, public names."""

import doctest
import re
from importlib.metadata import version
from pathlib import Path

import matplotlib as mpl
import pytest
import xarray as xr

import identiformer as idf
from docs import make_yardsticks
from docs.make_imports import with_picture
from docs.make_maps import PAGE, with_tables
from docs.make_pages import variants_page
from identiformer.models.loading.named import NAMED

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_the_variants_page_matches_a_run(minilm):
    made, kept = variants_page(minilm), (DOCS / "variants.md").read_text(encoding="utf-8")
    assert NUMBER.sub("#", made) == NUMBER.sub("#", kept), "run `make docs`"
    for ours, theirs in zip(NUMBER.findall(made), NUMBER.findall(kept), strict=True):
        assert float(ours) == pytest.approx(float(theirs), abs=0.011), "run `make docs`"


def test_the_readme_begins_with_commands_that_work_in_a_clone():
    root = DOCS.parent
    targets = set(re.findall(r"^([\w-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in (root / "README.md", DOCS / "start.md"):
        text = page.read_text(encoding="utf-8")
        commands = re.findall(r"\bmake ([\w-]+)", text)
        assert {*commands} <= targets
        assert text.index("make demo") < text.index("pip install"), f"{page.name}: no index has a release yet"


def test_pages_say_so_where_a_command_needs_a_clone():
    """Of this project's modules, the wheel has identiformer alone."""
    for page in (DOCS.parent / "README.md", *DOCS.glob("*.md")):
        text = re.sub("<!--.*?-->", "", page.read_text(encoding="utf-8"))
        if command := re.search(r"python\s-m (studies|benchmarks|docs)\b", text):
            assert re.search(r"\bclone\b", text, re.IGNORECASE), f"{page.name}: `{command[0]}` needs a clone"


def row_of(model, name, title, stored):
    config, network = model.network.config, model.network
    parameters = sum(parameter.numel() for parameter in network.parameters())
    size = f"{parameters:,} | {config.num_hidden_layers} × {config.num_attention_heads}"
    return f"| `{name}` | {title} ({type(network).__name__}) | {size} | {stored} | {model.identity['dtype']} |"


@pytest.mark.parametrize(
    ("name", "title", "stored"),
    [
        ("minilm", "all-MiniLM-L6-v2", "float32"),
        pytest.param("smollm2", "SmolLM2-135M-Instruct", "GGUF Q4_1, 4 bits", marks=pytest.mark.slow),
    ],
)
def test_the_table_of_models_describes_what_a_name_loads(request, name, title, stored):
    model, page = request.getfixturevalue(name), (DOCS / "models.md").read_text(encoding="utf-8")
    assert row_of(model, name, title, stored) in page
    source = page.split(f"| `{name}` |")[1].splitlines()[0]
    assert NAMED[name].requirement in source
    assert all(part in source for part in model.identity["weights"].split(" of "))


@pytest.mark.shared
def test_the_table_of_models_describes_gte_small(shared):
    model = idf.load(shared / "models" / "gte-small")
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    assert row_of(model, "FOLDER/gte-small", "gte-small", "float32") in page


def test_links_between_pages_resolve():
    root = DOCS.parent
    pages = (root / "README.md", *DOCS.glob("*.md"), *DOCS.glob("tutorials/*"), root / "benchmarks" / "README.md")
    for page in pages:
        for target in re.findall(r"\]\((?!https?:)([^)#]+\.\w+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


# BertViz and Inseq leave files open.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_examples_of_interoperability_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "interoperability.md").read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        exec(block, names)
    assert {"head_view", "FeatureAttributionSequenceOutput"} <= names.keys()
    with xr.open_dataset("maps.nc", engine="scipy") as kept:
        assert kept.effective.equals(names["maps"].effective)


PAGES = "".join(page.read_text(encoding="utf-8") for page in (DOCS.parent / "README.md", *DOCS.glob("*.md")))
EXAMPLES = "".join(re.findall(r"```(?:python|pycon)\n(.*?)```", PAGES, re.DOTALL))


@pytest.mark.parametrize("name", idf.__all__)
def test_every_public_name_has_a_page_and_an_example(name):
    assert re.search(rf"\b{name}\b", PAGES), f"mention {name} on a page of docs/"
    documented = getattr(idf, name).__doc__ or ""
    assert ">>>" in documented or re.search(rf"\b{name}\b", EXAMPLES), f"add an example of {name}"


def test_contributing_draws_the_import_contract():
    page = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert with_picture(page) == page, "run `python -m docs.make_imports`"
    assert "│ paper" in page  # shares a layer with explorer


def test_the_tables_of_maps_are_those_of_the_registry():
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run `python -m docs.make_maps`"


def test_the_tables_of_yardsticks_are_those_of_the_registry():
    page = (DOCS / "yardsticks.md").read_text(encoding="utf-8")
    assert make_yardsticks.with_tables(page) == page, "run `python -m docs.make_yardsticks`"
    assert "| `value_zeroing` |" in page


def test_the_example_of_yardsticks_runs(minilm):
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", (DOCS / "yardsticks.md").read_text(encoding="utf-8"), re.DOTALL)[1], names)
    assert names["result"].score.notnull().all()
    assert names["result"].explanation_score.notnull().all()


def test_the_custom_model_example_runs():
    from tests.models.families import word_tokenizer

    written = re.search(r"```python\n(.*?)```", (DOCS / "models.md").read_text(encoding="utf-8"), re.DOTALL)
    names = {"tokenizer": word_tokenizer(), "__name__": "mine"}
    exec(written[1], names)
    model, trace, result = names["model"], names["trace"], names["result"]
    assert result.raw.shape == (2, 4, 12, 12)
    assert int(result.nullity.max()) == 4
    layer = trace.layer(1)
    assert model.rerun(trace, {(1, 0): layer.weights[0]}).output.patched < 1e-6
    assert layer.projection is not None
    assert layer.value_bias is not None


def test_the_counts_of_supported_models_match_the_record():

    from docs.make_models import GENERATED, models_summary
    from identiformer.support.record import read_record
    from identiformer.support.verification import known_support

    record = read_record()
    assert f"transformers=={record['transformers']}\n" in (DOCS.parent / "constraints.txt").read_text(encoding="utf-8")
    if version("transformers") != record["transformers"]:
        pytest.skip("the page lists the architectures of another version of transformers")
    supports = known_support()
    assert [each.architecture for each in supports] == [row["architecture"] for row in record["architectures"]], "run `make docs`"
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    generated = models_summary(supports, record["transformers"])
    assert page.partition(GENERATED)[2] == generated.partition(GENERATED)[2], "run `make docs`"
    assert sum(support.verified for support in supports) >= 150
    assert all(reason == reason.strip() for support in supports for reason in support.reasons.values())


def test_paper_page_explains_exactly_the_failures():
    from docs.make_paper import page

    graded = {"figure": "2a", "says": "it falls", "paper": None, "tolerance": None, "ours": "1 2 %", "verdict": "fails"}
    figure = {"number": "2a", "heading": "Figure 2a. Rates", "caption": "m.", "table": None, "grades": [graded]}
    found = {"opening": ["Model m."], "figures": [figure], "missing": {"12": "needs data"}, "times": [], "ending": "No time."}
    written = page(found, {"2a: it falls": "It rises."}, {"2a": "m, quickly."})
    assert "- **Figure 2a**, it falls: 1 2 %. It rises." in written
    assert "- Figure 12 needs data." in written
    assert "The picture is of a run with `--quick`: m, quickly." in written
    for notes in ({}, {"2a: it falls": "It rises.", "3: it rises": "It falls."}):
        with pytest.raises(SystemExit, match="expected"):
            page(found, notes, {})


def test_every_caption_of_the_paper_page_has_a_picture_or_a_table():
    blocks = (DOCS / "paper.md").read_text(encoding="utf-8").partition("## The figures")[2].split("\n\n")
    captions = [number for number, block in enumerate(blocks) if block.startswith("**")]
    assert len(captions) > 10
    for number in captions:
        assert blocks[number + 1].startswith(("![", "| ")), blocks[number]


def test_figures_without_a_picture_are_listed_once():
    from docs.make_paper import page

    figures = [
        {"number": f"{number}x", "heading": f"Figure {number}x. Rates", "caption": "m.", "table": None, "grades": []}
        for number in (7, 8)
    ]
    written = page({"opening": [], "figures": figures, "missing": {}, "times": [], "ending": ""}, {}, {})
    assert "| 7x. Rates; 8x. Rates | m. |" in written
    assert "**" not in written.partition("## The figures")[2]


def test_paper_page_has_a_note_for_each_failed_claim():
    import tomllib

    written = (DOCS / "paper.md").read_text(encoding="utf-8")
    failed = [line for line in written.splitlines() if line.startswith("|") and line.endswith("| fails |")]
    notes = tomllib.loads((DOCS / "paper_notes.toml").read_text(encoding="utf-8"))
    assert len(failed) == len(notes), "run `python -m docs.make_paper FOLDER`"
    assert all(note in written for note in notes.values()), "run `python -m docs.make_paper FOLDER`"


def test_every_page_is_in_the_contents():
    sections = [DOCS / f"{name}.md" for name in ("index", "howto", "concepts", "reference")]
    listed = {line for page in sections for line in page.read_text(encoding="utf-8").splitlines()}
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert pages <= listed, "add the page to a toctree of docs/howto.md, docs/concepts.md or docs/reference.md"


def test_the_first_page_shows_what_is_printed():
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", (DOCS / "start.md").read_text(encoding="utf-8"), re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(text, {}, "start", "start.md", 0)
    assert len(examples.examples) >= 5
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(examples).failed == 0


def test_the_reference_lists_every_public_name():
    from docs.make_reference import MODULES, api_page, commands_page, groups, schema_page
    from identiformer.results.schema import VARIABLES

    assert sorted(name for names in groups().values() for name in names) == sorted({*idf.__all__} - {*MODULES})
    for module in MODULES:
        assert all(f"~identiformer.{module}.{name}\n" in api_page() for name in getattr(idf, module).__all__)
    assert all(f"## {measure}\n" in schema_page() for measure in VARIABLES)
    assert "| `--fast` | Leave out certified bounds" in commands_page()
    assert "identiformer inspect 'He said the pie was his.'" in commands_page()
