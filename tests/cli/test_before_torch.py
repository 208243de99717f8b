"""Mistakes that need no model to be found are answered before torch is imported, which takes seconds."""

import json
import os
import subprocess
import sys

import pytest

from tests.cli.rejected import TEXT
from tests.glue import write_glue
from tests.runs.tiny import texts, write_tsv

RUNNER = """
import json, sys, time
from contextlib import redirect_stderr
from io import StringIO
from identiformer.cli import application, run_command

for line in sys.stdin:
    start = time.process_time()
    application.errors.file = printed = StringIO()
    with redirect_stderr(printed):
        status = run_command(json.loads(line))
    loaded = [name for name in ("torch", "transformers") if name in sys.modules]
    print(json.dumps([status, printed.getvalue(), loaded, time.process_time() - start]), flush=True)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory, tiny_path):
    folder = tmp_path_factory.mktemp("files")
    write_tsv(folder / "dev.tsv", texts(8))
    write_glue(folder / "glue", train=4, dev=4)
    (folder / "empty.tsv").write_text("")
    (folder / "file").write_text("x")
    (folder / "other").mkdir()
    (folder / "other" / "letter.txt").write_text("x")
    (folder / "lines.txt").write_text("one\ntwo\nthree\nfour")
    (folder / "tiny").symlink_to(tiny_path)
    return folder


@pytest.fixture(scope="module")
def answer(files):
    """Run a command in one process for all tests, which would notice torch as soon as one command imports it."""
    with subprocess.Popen(
        (sys.executable, "-c", RUNNER),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=files, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    ) as running:  # fmt: skip
        wanted, answered = running.stdin, running.stdout
        assert wanted is not None
        assert answered is not None

        def answer(*arguments):
            wanted.write(json.dumps(arguments) + "\n")
            wanted.flush()
            return json.loads(answered.readline())

        yield answer
        wanted.close()


OUT = ("--out", "out")
READING: dict[str, tuple[str, ...]] = {name: (name, TEXT) for name in ("inspect", "attribute", "generate")}
READING["explore"] = ("explore", TEXT, "--no-browser")
CORPUS = {name: (name, "dev.tsv", *OUT) for name in ("run", "compare", "identify")}
FINETUNE = ("finetune", "--task", "MRPC", "--data", "glue", *OUT)
VARIANTS = ("train-variants", "--task", "MRPC", "--data", "glue", *OUT)
PAPER = ("paper", "--data", "glue", *OUT)
LOADING = {**READING, **CORPUS, "finetune": FINETUNE, "paper": PAPER}
"""Every command that loads a model."""

WRONG_MODELS = {
    "minlm": "did you mean minilm?",
    "SmolLM": "did you mean smollm2?",
    "no-such/model": "not in the hub's local cache",
    "./no-such-model": "check the path",
    "no-such.gguf": "check the path",
    "other": "has no config.json",
    "file": "or a .gguf file, got the file file",
}
WRONG = [
    *((*command, "--model", name, message) for command in LOADING.values() for name, message in WRONG_MODELS.items()),
    *((*command, "--device", "abacus", "expected a device that torch can use") for command in LOADING.values()),
    *(
        (*command, "--dtype", "float3", "a dtype to compute in")
        for name, command in LOADING.items()
        if name not in ("attribute", "finetune")
    ),
    *((*command, "--device-map", "nowhere", "or disk, got 'nowhere'") for command in READING.values()),
    *((*command, "--device-map", "disk", "--device", "cuda", "got both") for command in READING.values()),
    *((*command, "--revision", "v1", "a revision of a model on the hub") for command in READING.values()),
    *((*command[:1], " ", "--model", "tiny", "got an empty one") for command in READING.values()),
    *((*READING[name], "--chat", "--pair", "b", "got a pair") for name in ("inspect", "attribute")),
    *((*READING[name], "--system", "Be brief.", "expected a chat") for name in READING if name != "explore"),
    *((*READING[name], "--generate", "0", "at least 1 new token") for name in ("inspect", "attribute")),
    *((*READING[name], "--generate", "2", "expected a causal language model") for name in ("inspect", "attribute")),
    *((*READING[name], "--pair", " ", "got an empty one") for name in READING if name != "generate"),
    *((*READING[name], "--out", "file/report.html", "part of the path is a file") for name in READING if name != "explore"),
    *((*READING[name], "--run", "other", "expected the folder of a run") for name in ("attribute", "explore")),
    *((name, "--image", "no.png", "no.png") for name in ("inspect", "explore")),
    *((name, TEXT, "--image", "file", "got both") for name in ("inspect", "explore")),
    *(
        (name, "--image", "file", "--model", model, f"expected a model that reads images, got {model}")
        for name in ("inspect", "explore")
        for model in ("minilm", "smollm2", "tiny")
    ),
    *((*READING["inspect"], "--layer", layer, "expected a layer from 1 to 6") for layer in ("0", "7", "-1", str(10**30))),
    *((*READING["inspect"], "--head", head, "expected a head from 0 to 11") for head in ("12", "-1")),
    (*READING["inspect"], "--model", "tiny", "--layer", "3", "expected a layer from 1 to 2"),
    (*READING["inspect"], "--model", "smollm2", "--layer", "31", "expected a layer from 1 to 30"),
    (*READING["inspect"], "--model", "smollm2", "--head", "9", "expected a head from 0 to 8"),
    (*READING["attribute"], "--norm", "nuclear", "expected a norm of frobenius"),
    (*READING["attribute"], "--input", "beside", "expected an input site of before"),
    (*READING["attribute"], "--tolerance", "2", "expected a tolerance"),
    (*READING["attribute"], "--tolerance", "0.1", "--exact", "none for an exact computation"),
    (*READING["attribute"], "--directions", "1", "at least 2 directions"),
    (*READING["attribute"], "--token", "-1", "'--token'"),
    (*READING["attribute"], "--out", "found.doc", ".html, .png, .svg or .pdf"),
    (*READING["generate"], "--temperature", "-1", "expected a temperature"),
    (*READING["generate"], "--generation-config", "gpt2", "expected generation_config 'model', or none"),
    (*READING["generate"], "--model", "tiny", "expected a causal language model with its head, got BertModel"),
    (*READING["generate"], "--max-new-tokens", "0", "at least 1 new token"),
    (*READING["explore"], "--port", "70000", "port 70000 cannot be used"),
    (*READING["explore"], "--chat", "add --generate"),
    (*READING["explore"], "--generate", "--pair", "b", "got a pair"),
    (*READING["explore"], "--generate", "--model", "minilm", "expected a causal language model"),
    (*READING["explore"], "--max-new-tokens", "0", "at least 1 new token"),
    ("explore", "--view", "file", "file"),
    *(
        (*command, "--seed", "-1", "expected a seed")
        for name, command in LOADING.items()
        if name not in ("inspect", "explore", "paper")
    ),
    *((name, "no.tsv", *OUT, "there is none") for name in CORPUS),
    *((name, "empty.tsv", *OUT, "empty.tsv is empty") for name in CORPUS),
    *((*command, "--limit", "0", "at least one example") for command in (*CORPUS.values(), FINETUNE, VARIANTS)),
    *((*command, "--max-length", "0", "at least 1 token") for command in CORPUS.values()),
    *((name, "dev.tsv", "--out", out, "file") for name in CORPUS for out in ("file", "file/run")),
    *((name, "dev.tsv", "--out", "other", "holds letter.txt") for name in ("run", "compare")),
    *((*CORPUS[name], "--engine", "fast", "expected an engine of serial, ray") for name in ("run", "compare")),
    *((*CORPUS[name], "--workers", "2", "the serial engine has one worker") for name in ("run", "compare")),
    *((*CORPUS[name], "--engine", "ray", "--workers", "0", "at least one worker") for name in ("run", "compare")),
    *((*CORPUS[name], "--format", "xls", "expected a format of tsv") for name in ("run", "compare")),
    *((*CORPUS[name], "--text-column", "absent", "absent") for name in ("run", "compare")),
    *((*CORPUS[name], "--system", "Be brief.", "expected a chat") for name in ("run", "compare")),
    *((name, "lines.txt", *OUT, "--generate", "2", "expected a causal language model") for name in ("run", "compare")),
    *((*LOADING[name], "--memory", "much", "a size of memory such as") for name in (*READING, "run", "compare")),
    *((name, "lines.txt", *OUT, "--chat", "--max-length", "9", "expected whole texts") for name in ("run", "compare")),
    (*CORPUS["run"], "--measures", "effective_atention", "expected measures among texts"),
    (*CORPUS["run"], "--measures", "reading,", "got ''"),
    (*CORPUS["run"], "--shard-size", "33", "a multiple of 32"),
    (*CORPUS["run"], "--part", "3/2", "expected a part"),
    (*CORPUS["run"], "--directions", "1", "at least 2 directions"),
    (*CORPUS["compare"], "--maps", "raww", "expected maps among raw"),
    (*CORPUS["compare"], "--maps", "rollout:raww", "expected maps among raw"),
    (*CORPUS["compare"], "--yardsticks", "luck", "expected yardsticks among value_zeroing"),
    (*CORPUS["compare"], "--maps", "raw", "--yardsticks", "deletion_mask", "a yardstick that judges maps"),
    (*CORPUS["compare"], "--maps", "attnlrp", "--yardsticks", "value_zeroing", "a yardstick that judges explanations"),
    (*CORPUS["identify"], "--probe", "deep l2", "expected probes among naive cosine"),
    (*CORPUS["identify"], "--also", "everything", "expected also= among transfer"),
    (*CORPUS["identify"], "--fit", "luck", "expected a fit of closed, adam"),
    (*CORPUS["identify"], "--limit", "3", "expected at least 4 examples"),
    (*CORPUS["identify"], "--layer", "7", "expected a layer from 1 to 6"),
    (*CORPUS["identify"], "--resplits", "0", "at least one resplit"),
    (*CORPUS["identify"], "--compare-with", "minlm", "did you mean minilm?"),
    *((*command, "--task", "QNLI", "expected a task of MRPC") for command in (FINETUNE, VARIANTS)),
    *((*command, "--task", "CoLA", "CoLA/train.tsv, but there is no such file") for command in (FINETUNE, VARIANTS)),
    *((*command, "--epochs", "0", "at least one epoch") for command in (FINETUNE, VARIANTS)),
    *((*command, "--out", "file", "file") for command in (FINETUNE, VARIANTS, PAPER)),
    *((*command, "--out", "other", "holds letter.txt") for command in (FINETUNE, PAPER)),
    (*VARIANTS, "--seeds", "0", "'--seeds'"),
    (*PAPER, "--of", "brunner2021", "expected papers among brunner2020"),
    (*PAPER, "--figures", "2a, 99", "expected figures among 1a"),
    (*PAPER, "--of", "all", "--figures", "2a", "expected --figures with one paper"),
    (*PAPER, "--passage", "no.txt", "no.txt cannot be read"),
    (*PAPER, "--pair", "lines.txt", "expected 2 texts"),
    (*PAPER, "--data", "other", "expected some of MRPC/dev.tsv"),
    (*PAPER, "--workers", "0", "at least one worker"),
    *(("models", "--verify", names, "expected architectures that") for names in ("bertt", "bert,", " ")),
    ("merge", "other", *OUT, "expected the folder of a run"),
    ("results", "other", "expected the folder of a run"),
    ("results", "other", "--json", "expected the folder of a run"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: " ".join(case[:-1])[:120])
def test_a_mistake_is_answered_before_torch_is_imported(answer, files, case):
    before = sorted(files.rglob("*"))
    status, printed, loaded, _ = answer(*case[:-1])
    assert (status, loaded) == (2, []), printed
    assert case[-1] in printed
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert sorted(files.rglob("*")) == before
