"""How the tests are laid out: what several of them need is in a module without tests."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def imported_by(source):
    """The names of all modules that Python code imports, and of what it imports from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:  # code to be run
            try:
                yield from imported_by(node.value)
            except SyntaxError:
                continue


def of_test_modules(source):
    return sorted(name for name in imported_by(source) if any(part.startswith("test_") for part in name.split(".")))


def test_no_module_imports_a_test_module():
    """Tests that do not need each other can be moved, split and skipped alone."""
    paths = set(TESTS.rglob("*.py")) - {Path(__file__)}
    assert len(paths) > 200
    found = {path.relative_to(TESTS): of_test_modules(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: names for path, names in found.items() if names} == {}


def test_imports_of_test_modules_are_found():
    inside = 'def late():\n    from tests.b.test_c import d\nCODE = "from tests.e.test_f import g\\n"\nTEXT = "we import test_h"'
    found = of_test_modules(f"import tests.test_a\nfrom . import test_x, helper\nfrom tests.runs.tiny import bits\n{inside}")
    assert found == [".test_x", "tests.b.test_c.d", "tests.e.test_f.g", "tests.test_a"]
