"""The settings of the documentation site: `make site` builds it with Sphinx into build/site, without a network."""

import os
import re
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

import identiformer  # noqa: E402
from docs.make_reference import write_reference  # noqa: E402

urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]

project = "identiformer"
author = "The identiformer developers"
copyright = author
release = identiformer.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["images/*.md"]
templates_path = ["_templates"]
default_role = "py:obj"

autosummary_generate = True
autodoc_typehints = "none"  # shapes in annotations are for jaxtyping; the docstrings say them in words
autodoc_inherit_docstrings = False  # those of transformers are not written for this site
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Inventories of other projects are fetched only where a network is wanted: INTERSPHINX=1 make site.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
    "xarray": ("https://docs.xarray.dev/en/stable", None),
} if os.environ.get("INTERSPHINX") else {}  # fmt: skip

myst_enable_extensions = ["colon_fence", "substitution"]
myst_heading_anchors = 3
myst_substitutions = {"repository": urls["Homepage"], "release": release}
nb_execution_mode = "off"  # notebooks keep their outputs; `make test-slow` runs them and compares
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "pydata_sphinx_theme"
html_title = "identiformer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_context = {"default_mode": "auto"}
smartquotes = False  # options begin with two hyphens
highlight_language = "none"  # a block without a language is a shell command
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("start", "which_tool", "generated/gallery")}  # sections of one page
gallery = ROOT / "build" / "gallery"
html_extra_path = [str(gallery)] if gallery.is_dir() else []
html_theme_options = {
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "icon_links": [{"name": "Source", "url": urls["Homepage"], "icon": "fa-brands fa-github"}],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def escape_bars(app, what, name, obj, options, lines):
    """Show |a| in a docstring as it is, where reStructuredText would look for a substitution."""
    for number, line in enumerate(lines):
        outside = re.split(r"(`+[^`]*`+)", line)
        lines[number] = "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in outside)


def setup(app):
    """Write the pages that are made from the code before Sphinx looks for pages."""
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    write_reference(HERE / "generated", gallery)
