import gc
import linecache
import os
import signal
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import browser, page, serving  # noqa: F401  fixtures for every test that shows a page

os.environ.setdefault("HF_HUB_OFFLINE", "1")
settings.register_profile("here", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("thorough", settings.get_profile("here"), max_examples=300)
settings.load_profile("here")

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"

# NLTK looks into its environment when it is first imported.
os.environ.setdefault("NLTK_DATA", str(SHARED / "data" / "nltk_data"))


@cache
def import_libraries():
    """Import them before identiformer, whose shapes jaxtyping checks: what it imports is not read from compiled files."""
    import captum.attr  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import peft  # noqa: F401
    import scipy.optimize  # noqa: F401
    import transformers.modeling_utils  # noqa: F401
    import xarray  # noqa: F401
    from beartype import beartype

    beartype(import_libraries.__wrapped__)  # imports the rest of beartype


def pytest_collectstart():
    """Run by the processes that collect tests, which that of `--numprocesses` does not."""
    import_libraries()


# Torch keeps the stack of each operation that it traces, and Python would look up each time whether a file of it has changed.
linecache.checkcache = lambda filename=None: None

# Libraries and tests stay until the end, so the garbage collector need not look through them again and again.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000)


@pytest.fixture(autouse=True)
def _seed():
    import torch

    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch):
    """Tests of what is printed do not depend on how long it takes."""
    monkeypatch.setattr("identiformer.progress.SECONDS", 3600)


@pytest.fixture(scope="module")
def undrawn():
    """Runs write a word in place of each of their pictures, whose drawing takes longer than all else in a small run."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("figures.saving", "paper.reproduction"):
            patch.setattr(f"identiformer.{module}.draw", lambda drawn, extension: extension.encode())
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("needs the data and models that stand beside a development checkout")
    return SHARED


@pytest.fixture(scope="session")
def minilm():
    from identiformer.models import load

    return load("minilm")


@pytest.fixture(scope="session")
def smollm2():
    from identiformer.models import load

    return load("smollm2")


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory):
    """A BERT of two layers in a folder of its own."""
    from tests.runs.tiny import save_tiny

    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_path):
    from identiformer.models import load

    return load(tiny_path)
