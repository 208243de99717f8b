"""Draw the layers of the import contract into CONTRIBUTING.md: python -m docs.make_imports"""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = re.compile(r"(?<=<!-- imports: begin -->\n).*?(?=<!-- imports: end -->)", re.DOTALL)


def imports_picture() -> str:
    """One line per layer, the highest first; a module with its own row is described by its docstring."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    names = [[name.strip().removeprefix("identiformer.") for name in layer.split("|")] for layer in layers]
    width = max(len(name) for layer in names for name in layer)
    lines = [
        f"{'│' if row else ' '} {name:{width}}  {_purpose(name)}".rstrip()
        for layer in names
        for row, name in enumerate(sorted(layer))
    ]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _purpose(name: str) -> str:
    """The first sentence of a package's or module's docstring."""
    folder = ROOT / "src" / "identiformer" / name
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\w)\.(?:\s|$)", docstring)[0].replace("\n", " ")


def with_picture(page: str) -> str:
    """CONTRIBUTING.md with the picture of today's contract."""
    return PICTURE.sub(lambda _: imports_picture(), page)


if __name__ == "__main__":
    contributing = ROOT / "CONTRIBUTING.md"
    contributing.write_text(with_picture(contributing.read_text(encoding="utf-8")), encoding="utf-8")
