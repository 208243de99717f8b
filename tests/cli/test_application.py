"""Streams and errors of a command: invalid bytes, locales, full disks, closed pipes, interrupts, unexpected exceptions."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from identiformer.cli import run_command
from identiformer.cli.application import error_sentence
from identiformer.errors import InputError
from tests.cli.rejected import TEXT, rejected
from tests.runs.tiny import texts, write_tsv

COMMAND = (sys.executable, "-c", "from identiformer.cli import main; main()")
PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_invalid_utf8_is_rejected_in_one_sentence(capsys, tiny_path, tiny):
    for arguments in (("inspect", "w1 \udcff w2"), ("attribute", "w1", "--pair", "\udc80"), ("explore", "\ud800")):
        assert "in UTF-8" in rejected(capsys, *arguments, "--model", tiny_path)
    with pytest.raises(InputError, match=r"half of a surrogate pair \('\\ud800'\) at character 3"):
        tiny.trace("w1 \ud800")
    with pytest.raises(InputError, match="half of a surrogate pair"):
        tiny.trace("w1", "w2 \udfff")


def test_bytes_outside_the_locale_are_read_as_utf8(tiny_path, monkeypatch):
    """In the C locale Python passes each byte of UTF-8 as half of a surrogate pair."""
    results = []
    for text in ("w1 w2 w3 é 日本", "w1 w2 w3 é 日本".encode().decode("ascii", "surrogateescape")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", stream)
        assert run_command(["inspect", text, "--model", str(tiny_path), "--json"]) == 0
        results.append(json.loads(stream.buffer.getvalue()))
    assert results[0] == results[1]
    assert results[0]["provenance"]["text"] == "w1 w2 w3 é 日本"


def test_characters_outside_the_output_encoding_are_escaped(tiny_path, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert run_command(["attribute", "w1 é", "--model", str(tiny_path)]) == 0
    assert "\\xb1" in stream.buffer.getvalue().decode("ascii")  # ±


@pytest.mark.slow
@pytest.mark.parametrize("environment", [PLAIN_C, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LANG": "C"}])
def test_results_are_the_same_in_any_locale(tiny_path, tmp_path, environment):
    write_tsv(tmp_path / "é.tsv", texts(8))
    os.symlink(tiny_path, tmp_path / "modèle")

    def call(*arguments):
        base = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
        done = subprocess.run((*COMMAND, *arguments), capture_output=True, cwd=tmp_path, env=base | environment, check=False)
        assert b"Traceback" not in done.stderr
        assert done.returncode in (0, 2)
        assert done.returncode == 0 or len(done.stderr.splitlines()) == 1
        return done

    inspected = call("inspect", "w1 naïve 日本", "--model", str(tiny_path), "--json", "--out", "é.html")
    assert json.loads(inspected.stdout)["provenance"]["text"] == "w1 naïve 日本"
    assert "naïve 日本" in (tmp_path / "é.html").read_text(encoding="utf-8")
    # Names outside ASCII cannot always be used under PYTHONUTF8=0, which is an error of one sentence.
    for arguments in (
        ("run", "é.tsv", "--measures", "texts", "--out", "ü"),
        ("identify", "é.tsv", "--out", "ö", "--resplits", "2"),
    ):
        done = call(*arguments, "--model", "modèle")
        assert done.returncode == 0 or environment is PLAIN_C


def test_full_disk_is_reported_in_one_sentence(tiny_path, monkeypatch, capsys):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        status = run_command(["inspect", TEXT, "--model", str(tiny_path)])
        monkeypatch.undo()
    error_output = capsys.readouterr().err
    assert status == 2
    assert "No space left on device" in error_output
    assert len(error_output.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["inspect", TEXT], ["inspect", TEXT, "--json"], ["attribute", "w1"]])
def test_closed_pipe_is_silent_with_the_status_of_the_shell(tiny_path, monkeypatch, capsys, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        status = run_command([*arguments, "--model", str(tiny_path)])
        monkeypatch.undo()
    assert status == 141
    assert capsys.readouterr().err == ""


def test_failing_or_closed_streams_are_silent_at_exit():
    for end, status in (("> /dev/full", 2), ("2> /dev/full", 0), (">&-", 0), ("2>&-", 0), ("| true; exit ${PIPESTATUS[0]}", 141)):
        shell = f'exec 3>&2; "$0" -c "{COMMAND[2]}" --help {end}'
        done = subprocess.run(["bash", "-c", shell, sys.executable], capture_output=True, text=True, check=False)
        assert done.returncode == status, (end, done)
        assert len(done.stderr.splitlines()) == (1 if end == "> /dev/full" else 0), done.stderr


def test_interrupt_is_silent_with_status_130(tiny_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("identiformer.load", interrupted)
    assert run_command(["inspect", TEXT, "--model", str(tiny_path)]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_interrupted_run_can_be_resumed(tiny_path, tmp_path):
    corpus = write_tsv(tmp_path / "dev.tsv", texts(400))
    arguments = ("run", str(corpus), "--model", str(tiny_path), "--out", str(tmp_path / "run"), "--json")
    options = ("--measures", "texts,ambiguity")
    with subprocess.Popen((*COMMAND, *arguments, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline()  # the first shard is done
        running.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, error_output = running.communicate(timeout=60)
    assert (running.returncode, error_output) == (130, b"")
    assert time.monotonic() - begun < 20
    assert run_command([*arguments, "--measures", "texts,ambiguity", "--resume"]) == 0


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "out/report.html"), "out/report.html, got the error 'No space left on device'"),
        (PermissionError(13, "Permission denied", b"r\xff"), "r\udcff, got the error 'Permission denied'"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "expected text in UTF-8"),
        (RecursionError("maximum recursion depth exceeded"), "nested less deeply"),
        (MemoryError(), "fits into memory, got MemoryError"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), "into memory"),
    ],
)
def test_system_error_is_one_sentence(error, message):
    assert message in (error_sentence(error) or "")


def test_unexpected_exception_is_raised(tiny_path, monkeypatch):
    def broken(*_, **__):
        raise KeyError("a bug")

    assert error_sentence(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
    monkeypatch.setattr("identiformer.load", broken)
    with pytest.raises(KeyError):
        run_command(["inspect", TEXT, "--model", str(tiny_path)])


def test_an_error_is_one_line_even_with_quoted_line_breaks(capsys):
    arguments = ("inspect", "w1", "--model", "no\nsuch\x1b[31m\udcffmodel" + "é" * 5000)
    sentence = rejected(capsys, *arguments)
    assert "\x1b" not in sentence
    assert len(sentence) < 2000
