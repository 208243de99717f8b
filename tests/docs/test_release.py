"""What is written about the package in several places is the same in all."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONDA_NAMES = {"matplotlib-base": "matplotlib", "pytorch": "torch", "huggingface_hub": "huggingface-hub"}


def test_the_recipe_has_the_requirements_of_the_package():
    recipe = (ROOT / "release" / "recipe.yaml").read_text(encoding="utf-8")
    host, run = (re.search(rf"  {part}:\n((?:    - .*\n)+)", recipe)[1] for part in ("host", "run"))

    def needed(lines):
        rows = re.findall(r"- ([\w-]+) >=([\d.]+)", lines)
        return {f"{CONDA_NAMES.get(name, name)}>={version}" for name, version in rows}

    assert needed(run) == set(SETTINGS["project"]["dependencies"])
    assert needed(host) == set(SETTINGS["build-system"]["requires"])


def test_the_readme_of_the_package_page_has_no_relative_links():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/" in text
    for rule in SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert re.findall(r"\]\((?!https:).*?\)", text) == []
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures
    assert all(address.startswith("https://raw.githubusercontent.com/") for address in pictures)
