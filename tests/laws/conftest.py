import pytest

from identiformer.models import load
from tests.runs.tiny import save_tiny


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_path):
    return load(tiny_path)
