"""Write the pages of the site that are made from the code: names, commands, schema, architectures and gallery.

`docs/conf.py` calls this before a build; the pages in docs/generated are not committed.
"""

import inspect
from html import escape
from pathlib import Path

import typer

import identiformer as idf
from docs.gallery_entries import FIGURES, REPORTS
from identiformer.cli import app
from identiformer.results.schema import REQUIRED_ATTRIBUTES, SCHEMA_VERSION, VARIABLES
from identiformer.support.record import read_record
from identiformer.support.verification import known_support

GROUPS = {
    "Models and texts": (
        "load", "Model", "Trace", "AttentionLayer", "RecordedLayer", "FactoredLayer", "Answer", "Tokens", "Example",
        "Picture", "open_picture", "watch_attention", "read_corpus", "read_wikitext", "segments", "penn_tags",
    ),
    "Looking at a text": ("read", "Passage", "certify_head", "show", "explore"),
    "Results, runs and files": (
        "run", "compare", "Run", "open_run", "merge_runs", "save_result", "open_result", "reproduce",
        "reproduce_papers",
    ),
    "Fine-tuning and probes": ("finetune", "Finetuned", "train_variants", "Method", "TokenProbe"),
}  # fmt: skip
MEASURES = "Measures"
MODULES = {
    "equations": ("Equations", "Pure functions of tensors or NumPy arrays"),
    "figures": ("Figures", "Functions from a Dataset to matplotlib axes"),
    "nn": ("Modules", "Attention whose weights the output determines, to build and train models with"),
}
AXES = {
    "layer": "layers, counted from 1",
    "head": "heads, counted from 0",
    "query, key": "positions of a map's rows and columns; `query_token` and `key_token` hold their tokens",
    "target, source": "a hidden vector, and the input token whose contribution it holds",
    "position": "positions of a text",
    "map, explanation": "names of maps of each layer, and of explanations of the output",
    "yardstick, explanation_yardstick": "names of what judges them",
    "probe": "method and loss of a probe",
}


def write_reference(folder: Path, gallery: Path) -> None:
    """Write all pages; a page that is unchanged keeps its date, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    pages = {
        "api": api_page(),
        "commands": commands_page(),
        "schema": schema_page(),
        "architectures": architectures_page(),
        "gallery": gallery_page(gallery),
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def groups() -> dict[str, list[str]]:
    """The public names of the package by group; what is in no other group is a measure."""
    named = {name for names in GROUPS.values() for name in names}
    rest = [name for name in idf.__all__ if name not in named and name not in MODULES]
    first, second, *others = GROUPS
    return {first: list(GROUPS[first]), second: list(GROUPS[second]), MEASURES: rest} | {
        name: list(GROUPS[name]) for name in others
    }


def api_page() -> str:
    parts = ["# Python interface", "", "`import identiformer as idf` imports each name when it is first used.", ""]
    for title, names in groups().items():
        parts += [f"## {title}", "", _summary("identiformer", names)]
    for module, (title, meaning) in MODULES.items():
        parts += [f"## {title}", "", f"{meaning}: `idf.{module}`.", ""]
        parts += [_summary(f"identiformer.{module}", sorted(getattr(idf, module).__all__))]
    parts += ["## Errors", "", _summary("identiformer.errors", _errors())]
    return "\n".join(parts)


def _summary(module: str, names: list[str]) -> str:
    lines = ["```{eval-rst}", ".. autosummary::", "   :toctree: api", "   :nosignatures:", ""]
    return "\n".join([*lines, *(f"   ~{module}.{name}" for name in names), "```", ""])


def _errors() -> list[str]:
    import identiformer.errors as module

    return [name for name, kind in vars(module).items() if inspect.isclass(kind) and kind.__module__ == module.__name__]


def commands_page() -> str:
    command = typer.main.get_command(app)
    parts = [
        "# Command line",
        "",
        "`identiformer COMMAND --help` prints the same. Exit status 0: done; 1: stopped before the end; 2: bad input, with one "
        "sentence on standard error; 130: interrupted.",
        "",
    ]
    for name, one in sorted(command.commands.items()):
        parts += [f"## identiformer {name}", "", _plain(one.help), ""]
        arguments = [each for each in one.params if each.param_type_name == "argument"]
        options = [each for each in one.params if each.param_type_name == "option"]
        for title, params in (("argument", arguments), ("option", options)):
            if params:
                parts += [f"| {title} | meaning | default |", "|---|---|---|"]
                parts += [f"| `{_names(each)}` | {_plain(each.help)} | {_default(each)} |" for each in params]
                parts += [""]
        if one.epilog:
            parts += [f"```\n{one.epilog.removeprefix('Example:').strip()}\n```", ""]
    return "\n".join(parts)


def _names(parameter) -> str:
    return parameter.name.upper() if parameter.param_type_name == "argument" else ", ".join(parameter.opts)


def _default(parameter) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default in (None, False, ()) else f"`{parameter.default}`"


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def schema_page() -> str:
    parts = [
        "# Schema of results",
        "",
        f"Every result is an xarray Dataset that conforms to schema version {SCHEMA_VERSION}. `idf.save_result` and "
        "`idf.open_result` check it. Dimensions are known by name, never by order.",
        "",
        f"Attributes of every result: {', '.join(f'`{name}`' for name in REQUIRED_ATTRIBUTES)}, and the versions of the packages "
        "that its numbers depend on.",
        "",
        "| dimension | meaning |",
        "|---|---|",
        *(f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {meaning} |" for names, meaning in AXES.items()),
        "",
        "A result holds some or all of these variables, depending on the options of its measure. The page of each function says "
        "what a variable means.",
        "",
    ]
    for measure, variables in VARIABLES.items():
        of_corpus = measure.startswith("corpus_")
        source = f'`run["{measure.removeprefix("corpus_")}"]` of a corpus run' if of_corpus else _link(measure)
        parts += [f"## {measure}", "", f"From {source}.", "", "| variable | dimensions |", "|---|---|"]
        parts += [
            f"| `{name}` | {', '.join(f'`{dim}`' for dim in dims) or 'none: one number'} |" for name, dims in variables.items()
        ]
        parts += [""]
    return "\n".join(parts)


def _link(measure: str) -> str:
    return f"{{py:obj}}`identiformer.{measure}`" if measure in idf.__all__ else f"`{measure}`"


def architectures_page() -> str:
    supports = known_support()
    transformers = read_record()["transformers"]
    capabilities = list(supports[0].reasons)
    inputs = sorted({support.reads for support in supports if support.reads})
    choices = "".join(f'<option value="{escape(each)}">{escape(each)}</option>' for each in inputs)
    wanted = "".join(f'<option value="{number}">{escape(name)}</option>' for number, name in enumerate(capabilities))
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in ("architecture", "input", "attention", *capabilities))
    rows = "\n".join(_architecture_row(support, capabilities) for support in supports)
    return f"""# Architectures

All {len(supports)} architectures of transformers {transformers}, as `identiformer models` lists them. [How each check
works](../models.md). A check that fails shows its reason below the name.

```{{raw}} html
<div class="architecture-filter" role="search" aria-label="Filter architectures">
<label>Name <input type="search" id="architecture-name" placeholder="llama" autocomplete="off"></label>
<label>Input <select id="architecture-input"><option value="">any</option>{choices}</select></label>
<label>Supports <select id="architecture-capability"><option value="">anything</option>{wanted}</select></label>
<output id="architecture-count" aria-live="polite"></output>
</div>
<div class="architecture-table" tabindex="0" role="region" aria-label="Table of architectures">
<table id="architectures" class="table"><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></div>
<script src="../_static/architectures.js"></script>
```
"""


def _architecture_row(support, capabilities) -> str:
    works = [not support.reasons[name] for name in capabilities]
    attention = ", ".join(support.kinds) or "—"
    why = f"<details><summary>why not</summary>{escape(support.why_not)}</details>" if support.why_not else ""
    cells = "".join(f'<td class="{"yes" if each else "no"}">{"yes" if each else "no"}</td>' for each in works)
    flags = "".join("1" if each else "0" for each in works)
    return (
        f'<tr data-name="{escape(support.architecture)}" data-input="{escape(support.reads)}" data-works="{flags}">'
        f'<th scope="row">{escape(support.architecture)}{why}</th><td>{escape(support.reads) or "—"}</td>'
        f"<td>{escape(attention)}</td>{cells}</tr>"
    )


def gallery_page(gallery: Path) -> str:
    made = gallery / "gallery"
    built = all((made / entry.file).is_file() for entry in REPORTS)
    parts = [
        "# Gallery",
        "",
        "Real reports, each one file that works offline, with the command that made it. "
        + ("" if built else "This copy of the site was built without some of them: `make gallery site` makes them. ")
        + "The whole folder also stands alone: `make gallery` writes `build/gallery/gallery/index.html`.",
        "",
        "## Reports",
        "",
    ]
    for entry in REPORTS:
        title = (
            f'<a href="../gallery/{entry.file}">{escape(entry.title)}</a>'
            if (made / entry.file).is_file()
            else escape(entry.title)
        )
        parts += [f"```{{raw}} html\n<h3>{title}</h3>\n```", "", entry.shows, "", f"```\n{entry.command}\n```", ""]
    parts += ["## Figures", "", "One for each drawing function. Each takes a result and returns matplotlib axes.", ""]
    for entry in FIGURES:
        name = f"{{py:obj}}`idf.figures.{entry.function} <identiformer.figures.{entry.function}>`"
        parts += [f"**{name}**: {entry.shows}", ""]
        if (made / "figures" / f"{entry.function}.png").is_file():
            image = f'<img src="../gallery/figures/{entry.function}.png" alt="{escape(entry.shows)}" loading="lazy">'
            parts += [f"```{{raw}} html\n{image}\n```", ""]
        parts += [f"```python\n{entry.code}\n```", ""]
    return "\n".join(parts)
