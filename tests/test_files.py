"""Files and folders are written whole or not at all, and locks end with their process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from identiformer.errors import RunError
from identiformer.files import TEMPORARY, atomic, remove_leftovers, write_file
from identiformer.folders import ResumableFolder, foreign_entries, locked, require_same_settings


def interrupt(path, write):
    with atomic(path) as temporary:
        write(temporary)
        raise KeyboardInterrupt


def test_a_file_is_replaced_or_stays_as_it_was(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupt(path, lambda temporary: temporary.write_bytes(b"half"))
    assert path.read_bytes() == b"old"
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_replaced_or_stays_as_it_was(tmp_path):
    path = tmp_path / "folder"
    for content in ("old", "new"):
        with atomic(path) as temporary:
            (temporary / "deep").mkdir(parents=True)
            (temporary / "deep" / content).touch()
        with pytest.raises(KeyboardInterrupt):
            interrupt(path, lambda temporary: temporary.mkdir())
        assert os.listdir(path / "deep") == [content]
    assert os.listdir(tmp_path) == ["folder"]


def test_a_folder_that_is_being_replaced_is_put_back(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    (tmp_path / "folder" / "old").mkdir(parents=True)
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic(tmp_path / "folder") as temporary:
        temporary.mkdir()
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == ["old"]


def test_leftovers_are_removed_and_links_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / f"{TEMPORARY}folder" / "deep").mkdir(parents=True)
    (tmp_path / f"{TEMPORARY}file").touch()
    (tmp_path / f"{TEMPORARY}link").symlink_to(tmp_path / "kept")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["kept"]


def test_the_lock_of_a_killed_process_is_released(tmp_path):
    code = f"""
import time
from pathlib import Path
from identiformer.folders import locked
with locked(Path({str(tmp_path)!r})):
    print("locked", flush=True)
    time.sleep(100)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "locked\n"
    with pytest.raises(RunError, match="another run is writing to"), locked(tmp_path):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with locked(tmp_path):
        assert foreign_entries(tmp_path) == []


def test_the_same_settings_continue_and_others_are_named(tmp_path):
    folder, settings = ResumableFolder(tmp_path / "out", "task"), {"seed": 0, "versions": {"torch": "2"}, "data": ("a", "b")}
    for _ in range(2):
        with folder.started(settings):
            assert folder.stored() == {"seed": 0, "versions": {"torch": "2"}, "data": ["a", "b"]}
    with pytest.raises(RunError, match=r"but versions.torch is 2 there and 3 here; use another folder"):
        folder.check({**settings, "versions": {"torch": "3"}})
    with pytest.raises(RunError, match=r"but more is None there and 1 here"):
        require_same_settings(settings, {**settings, "more": 1}, tmp_path)
    with pytest.raises(RunError, match=r"expected a free folder .* holds settings\.json"):
        ResumableFolder(tmp_path / "out", "another task").check()
