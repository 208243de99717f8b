"""Importing a package loads no more than it needs: torch and transformers take seconds."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "xarray", "matplotlib", "scipy", "highspy", "zarr")


def loaded_by(statement):
    code = f"import json, sys; {statement}; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)


@pytest.mark.parametrize(
    "statement",
    ["import identiformer", "import identiformer.texts", "import identiformer; identiformer.read_corpus(['a text'])"],
)
def test_reading_texts_loads_neither_torch_nor_transformers(statement):
    assert loaded_by(statement) == []


def test_probes_do_not_load_transformers():
    assert "transformers" not in loaded_by("import identiformer.probes")
