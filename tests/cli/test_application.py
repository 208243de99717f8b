"""Streams and errors of a command: invalid bytes, locales, full disks, closed pipes, interrupts, unexpected exceptions."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from identiformer.cli import run_command
from identiformer.cli.application import error_sentence, interrupt_on_signals
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


@pytest.mark.parametrize("where", ["", "import of an extension module", "library that cleans up"])
def test_an_interruption_is_one_sentence_with_status_130(tiny_path, monkeypatch, capsys, where):
    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interruption:
            if where.startswith("import"):
                raise ImportError("initialization failed") from interruption
            if where:
                raise RuntimeError("cannot close")  # noqa: B904  as where one forgets what is being handled
            raise

    monkeypatch.setattr("identiformer.load", interrupted)
    assert run_command(["inspect", TEXT, "--model", str(tiny_path)]) == 130
    assert capsys.readouterr() == ("", "interrupted: finished work is kept, and nothing is half-written.\n")


def test_signals_within_a_second_are_one_interruption(monkeypatch):
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    clock = [100.0]
    monkeypatch.setattr("identiformer.cli.application.time", SimpleNamespace(monotonic=lambda: clock[0]))
    try:
        interrupt_on_signals()
        with pytest.raises(SystemExit) as stopped:
            signal.raise_signal(signal.SIGTERM)
        assert stopped.value.code == 143
        clock[0] += 0.9
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        clock[0] += 0.9
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for a command in the background of a script
        interrupt_on_signals()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interruption_in_a_destructor_is_not_lost(name, status):
    program = f"""
import signal, time
from identiformer.cli.application import interrupt_on_signals

class Interrupted:
    def __del__(self):
        signal.raise_signal(signal.{name})

interrupt_on_signals()
try:
    Interrupted()
    time.sleep(60)
except KeyboardInterrupt:
    raise SystemExit(130)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (status, "")


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
    assert running.returncode == 130
    assert re.fullmatch(
        rb"interrupted: \d+ of 13 shards are finished and kept in .*/run, so continue with --resume\.\n", error_output
    )
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
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "fits into memory, got libtorch_cpu.so"),
        (ImportError("libtorch_cpu.so: cannot open shared object file: Cannot allocate memory"), "fits into memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), "into memory"),
    ],
)
def test_system_error_is_one_sentence(error, message):
    assert message in (error_sentence(error) or "")


@pytest.mark.skipif(os.name == "nt", reason="needs a limit of the memory of a process")
def test_too_little_memory_to_load_torch_is_one_sentence():
    program = (
        "import resource, sys\n"
        "from identiformer.cli.application import error_sentence\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))\n"
        "try:\n    import torch\nexcept BaseException as error:\n    print(error_sentence(error))\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("expected work that fits into memory, got ")
    assert shown.count("\n") == 1


@pytest.mark.parametrize("level", ["1", "2"])
def test_without_asserts_commands_run_and_without_docstrings_they_say_why_not(tiny_path, level):
    command = (*COMMAND, "inspect", "w1 w2", "--model", str(tiny_path), "--json")
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONOPTIMIZE": level}, check=False)
    if level == "1":
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)
    else:
        assert ended.returncode == 2
        assert ended.stderr == (
            "error: expected Python with docstrings, which transformers needs, got -OO or PYTHONOPTIMIZE=2; use 1, or neither.\n"
        )


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
