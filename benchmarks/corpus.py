"""Runs over a corpus: cheap measures against bare forward passes, two Ray workers against one process, memory by length."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import identiformer as idf
from benchmarks.harness import SAG, SHARED, DisturbedMachineError, last_number_of, product_rate, report, side_by_side
from identiformer.names import CHEAP_MEASURES
from identiformer.runs.worker import Worker, one_thread
from identiformer.texts import BLOCK, Example, read_corpus

MODEL = SHARED / "models" / "gte-small"
CORPUS = SHARED / "data" / "MRPC" / "dev.tsv"
SOME = 64  # a bare loop over all 408 examples takes half a minute a turn


def run() -> None:
    if not MODEL.is_dir():
        print(f"---- corpus: needs {MODEL} and {CORPUS}", flush=True)
        return
    against_bare_passes()
    two_workers_against_one()
    memory()
    beginning()


def against_bare_passes() -> None:
    model = idf.load(MODEL)
    examples = list(read_corpus(CORPUS, SOME))
    worker = Worker(model, CHEAP_MEASURES)
    blocks = [(first, examples[first : first + BLOCK]) for first in range(0, SOME, BLOCK)]
    batches = [[examples[index] for index in batch] for first, own in blocks for batch in _batches(worker, first, own)]

    def bare() -> None:
        model.network.set_attn_implementation("eager")
        with one_thread(), torch.no_grad():
            for batch in batches:
                pairs = [example.pair for example in batch]
                inputs = model.tokenizer([example.text for example in batch], pairs, padding=True, return_tensors="pt")
                model.network(**inputs, output_attentions=True)

    times = side_by_side({"bare": bare, "measured": lambda: worker(blocks)}, 3)
    detail = f"({1e3 * times['bare'] / SOME:.0f} ms a bare pass, {SOME} pairs of MRPC, one thread)"
    report("gte-small: all cheap measures over bare passes", times["measured"] / times["bare"], 1.7, True, detail)


def _batches(worker: Worker, first: int, examples: list[Example]) -> list[list[int]]:
    lengths = {first + place: worker.model.length(each.text, each.pair) for place, each in enumerate(examples)}
    return [[index - first for index in batch] for batch in worker._batches(lengths, first, examples)]


def two_workers_against_one() -> None:
    """Start-up apart: from the first finished shard to the last, as the progress of the run tells it."""
    before = product_rate()
    serial, ray = (_seconds_per_shard(*options) for options in ((), ("--engine", "ray", "--workers", "2")))
    after = product_rate()
    if min(before, after) < SAG * max(before, after):
        raise DisturbedMachineError(
            f"products ran at {before / 1e9:.0f} and then {after / 1e9:.0f} Gflop/s; not reported, run it again"
        )
    report("gte-small: 2 Ray workers over serial, one thread each", serial / ray, 1.5, False)


def _seconds_per_shard(*options: str) -> float:
    """From the first sign of every worker being at work to the end."""
    with tempfile.TemporaryDirectory() as folder:
        command = _command(CORPUS, MODEL, Path(folder) / "run", "--limit", "384", "--json", *options)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            stamps = [(time.monotonic(), line) for line in process.stdout if '"done"' in line]
    skipped = 2  # each of two workers has then finished a shard, and with it what it does only once
    return (stamps[-1][0] - stamps[skipped - 1][0]) / (len(stamps) - skipped)


def memory() -> None:
    """The peak of a whole process over 500 examples and over the same ten times."""
    with tempfile.TemporaryDirectory() as folder:
        texts = [example.text for example in read_corpus(SHARED / "data" / "CoLA" / "dev.tsv", 500)]
        peaks = []
        for times in (1, 10):
            corpus = Path(folder) / f"{times}.txt"
            corpus.write_text("\n".join(texts * times) + "\n", encoding="utf-8")
            command = _command(corpus, "minilm", Path(folder) / f"run{times}")
            code = f"import resource, subprocess; subprocess.run({command!r}, check=True, stdout=-3, stderr=-3);"
            code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
            peaks.append(last_number_of("-c", code))
    report("minilm: peak memory, 5,000 examples over 500", peaks[1] / peaks[0], 1.05, True, f"({peaks[0] / 1024:.0f} MB)")


def beginning() -> None:
    """From the command to the first example of a long corpus; importing the model's class alone is the least it can take."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, out = Path(folder) / "lines.txt", Path(folder) / "run"
        corpus.write_text("".join(f"A short line with the number {number}.\n" for number in range(100_000)), encoding="utf-8")
        start = time.monotonic()
        with subprocess.Popen(_command(corpus, "minilm", out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not (out / "settings.json").exists() and process.poll() is None:
                time.sleep(0.01)
            begun = time.monotonic() - start
            process.kill()
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "from transformers import BertModel"], check=True)
    least = time.monotonic() - start
    report("minilm: seconds until 100,000 lines begin", begun, 5, True, f"{least:.1f} s for `from transformers import BertModel`")


def _command(corpus: Path, model: Path | str, out: Path, *options: str) -> list[str]:
    code = "from identiformer.cli import main; main()"
    return [sys.executable, "-c", code, "run", str(corpus), "--model", str(model), "--out", str(out), *options]
