"""An interrupted command ends at once; run again, its results are those of an undisturbed run to the bit."""

import random
import re
import shutil
import signal
import sys
from dataclasses import dataclass

import pytest
import torch

from identiformer.cli import run_command
from identiformer.files import TEMPORARY
from identiformer.results import open_result
from tests.glue import write_glue
from tests.interrupted import DEADLINE, counted, interrupt
from tests.killed import listed
from tests.measures.maps.tiny import tiny_network
from tests.models.families import word_tokenizer
from tests.runs.tiny import content, texts, write_tsv

CERTIFYING = "identiformer.measures.heads.certification:_certify"
ATTRIBUTING = "identiformer.models.derivatives.jacobian_norms:ForwardNorms._add"
FITTING = "identiformer.measures.identifiability.experiment:Tally.add"
IN_PARALLEL = "identiformer.measures.heads.stream:certify_heads"
ONE_PROCESS_IS_TOO_SLOW = {"identiformer.measures.heads.certification:SMALL": 0}
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, DEADLINE: 124}
"""How to interrupt a command, and the status with which it ends; that of a deadline is the status of `timeout`."""
SECONDS = 10
"""In which a command ends, also on a busy machine."""


@dataclass(frozen=True)
class Command:
    """A command, the function of each of its phases, and in how many calls of it to interrupt."""

    arguments: tuple
    phases: dict[str, int]
    resumed: tuple = ()
    """Options that continue it."""


COMMANDS = {
    "run": Command(
        ("run", "corpus.tsv", "--model", "encoder", "--measures", "reading,token_attribution", "--directions", 4),
        {
            CERTIFYING: 4,
            ATTRIBUTING: 4,
            "identiformer.runs.folder:RunFolder.write_shard": 1,
            "identiformer.runs.finished_run:save_result": 1,
        },
        ("--resume",),
    ),
    "compare": Command(
        ("compare", "corpus.tsv", "--model", "encoder"),
        {
            "identiformer.models.interventions.removal:changed_outputs": 4,
            "identiformer.measures.faithfulness.judging:_equal": 4,
            "identiformer.runs.folder:RunFolder.write_shard": 1,
            "identiformer.runs.finished_run:save_result": 1,
        },
        ("--resume",),
    ),
    "identify": Command(
        ("identify", "corpus.tsv", "--model", "encoder", "--resplits", 3, "--also", "neighbors"),
        {
            "identiformer.models.hidden_states.recording:_vectors": 4,
            FITTING: 4,
            "identiformer.measures.identifiability.folder:save_result": 1,
            "identiformer.figures.saving:draw": 1,
        },
    ),
    "finetune": Command(
        ("finetune", "--task", "MRPC", "--data", "glue", "--model", "encoder", "--epochs", 4),
        {
            "transformers.trainer:Trainer.training_step": 4,
            "identiformer.finetuning.training:KeepLastCheckpoint.on_save": 2,
            "transformers.trainer:Trainer.prediction_step": 3,
            "identiformer.finetuning.glue:publish": 1,
        },
    ),
    "generate": Command(
        ("generate", "w3 w1 w4 w1 w5", "--model", "writer", "--max-new-tokens", 12),
        {
            "identiformer.models.generation.generate:_Kept.put": 3,
            "identiformer.measures.maps.output.gradients:input_gradient": 3,
            CERTIFYING: 3,
            "identiformer.report.reports:render_report": 1,
        },
    ),
    "paper": Command(
        ("paper", "--data", "glue", "--model", "encoder", "--quick", "--figures", "2a,3,6,19", "--passage", "passage.txt"),
        {
            FITTING: 3,
            ATTRIBUTING: 3,
            "identiformer.paper.reproduction:draw": 3,
            "identiformer.paper.computations.study:save_result": 1,
        },
    ),
}


@pytest.fixture(scope="module")
def prepared(tiny_path, tmp_path_factory):
    """A folder with the models and data that the commands name; torch sums in one thread, as in their processes."""
    folder, threads = tmp_path_factory.mktemp("interrupted"), torch.get_num_threads()
    shutil.copytree(tiny_path, folder / "encoder")
    tokenizer = word_tokenizer()
    tiny_network("llama", "CausalLM", double=False, vocab_size=len(tokenizer)).save_pretrained(folder / "writer")
    tokenizer.save_pretrained(folder / "writer")
    write_tsv(folder / "corpus.tsv", texts(40, 8))
    write_tsv(folder / "long.tsv", texts(70, 5))
    (folder / "passage.txt").write_text("w3 w1 w4 w1 w5 w9 w2 w6\n")
    write_glue(folder / "glue")
    write_glue(folder / "glue", "CoLA")
    torch.set_num_threads(1)
    yield folder
    torch.set_num_threads(threads)


def words(prepared, command, out):
    """The words of a command; its models and data are in the folder prepared for them."""
    return [*(prepared / word if (prepared / str(word)).exists() else word for word in command.arguments), "--out", out]


def made(name, out):
    """What a command has made, in a form that is equal if it is the same to the bit."""
    if name == "generate":
        return out.read_bytes()
    if name in ("run", "compare"):
        return content(out)
    results = [path for path in out.rglob("*.zarr") if path.name != "results.zarr"]
    results += [path.parent for path in out.rglob("results.zarr/*/zarr.json")]  # of a run, which has one for each measure
    # A model that was fine-tuned in the folder is named after it; its revision is a hash of its weights.
    stored = {path.relative_to(out): open_result(path).assign_attrs(model="") for path in results}
    kinds = {"finetune": (".safetensors", ".json"), "identify": (".png",), "paper": (".png", "grades.json")}[name]
    whole = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.name.endswith(kinds)}
    if name != "finetune":  # pages and lists of durations differ
        whole = {key: value for key, value in whole.items() if ".zarr" not in key}
    return stored, whole, [path for path in listed(out) if "results.zarr" not in path]


def same(one, other):
    """Whether two commands have made the same."""
    if not isinstance(one, tuple):
        return one == other
    (stored, *rest), (others, *other_rest) = one, other
    return rest == other_rest and stored.keys() == others.keys() and all(stored[key].identical(others[key]) for key in stored)


def done(arguments):
    assert run_command([str(argument) for argument in arguments]) == 0


def require_end(outcome, number):
    """A command ends soon, with the status of its signal and one sentence, and so do all its processes."""
    assert outcome.status == SIGNALS[number], outcome
    assert outcome.seconds < SECONDS, outcome
    assert outcome.errors.startswith("interrupted: "), outcome
    assert outcome.errors.count("\n") == 1, outcome
    assert not outcome.survivors, outcome


def moments(name, prepared, out):
    """Run a command undisturbed, and choose moments in it: a function, the number of a call, and a part of the time it takes."""
    command, generator = COMMANDS[name], random.Random(f"{name} 17")
    with counted(*command.phases) as calls:
        done(words(prepared, command, out))
    chosen = []
    for function, count in command.phases.items():
        numbers = sorted(generator.choices(range(1, calls[function] + 1), k=count))
        chosen += [(function, number, round(generator.uniform(0, 0.9), 3)) for number in numbers]
    return chosen


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("number", SIGNALS, ids=["SIGINT", "SIGTERM", "deadline"])
@pytest.mark.parametrize("name", COMMANDS)
def test_interrupted_and_continued(prepared, tmp_path, name, number):
    command, whole = COMMANDS[name], tmp_path / "whole"
    chosen = moments(name, prepared, whole)
    assert len(chosen) == 10
    some = {signal.SIGTERM: slice(1, None, 4), DEADLINE: slice(2, None, 4)}
    for index, (function, call, share) in enumerate(chosen[some.get(number, slice(None))]):
        out = tmp_path / f"interrupted{index}"
        arguments = words(prepared, command, out)
        outcome = interrupt(function, call, share, *arguments, number=number)
        print(f"{name} {number!s} in call {call} of {function}, {share}: {outcome.seconds:.2f} s, {outcome.errors.strip()}")
        require_end(outcome, number)
        assert not [path for path in listed(out) if TEMPORARY in path]
        assert name != "generate" or not out.exists()
        kept = (out / "settings.json").is_file()
        done([*arguments, *(command.resumed if kept else ())])
        assert same(made(name, out), made(name, whole)), (function, call, share)
        print("the same to the bit")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGKILL], ids=["SIGINT", "SIGTERM", "deadline", "SIGKILL"])
def test_processes_that_certify_end_with_the_command(prepared, tmp_path, number):
    text = " ".join(f"w{index}" for index in range(1, 40))
    arguments = ["inspect", text, "--model", prepared / "encoder", "--out", tmp_path / "new.html"]
    outcome = interrupt(IN_PARALLEL, 3, 0.5, *arguments, number=number, values=ONE_PROCESS_IS_TOO_SLOW)
    if number == signal.SIGKILL:
        assert (outcome.status, outcome.survivors) == (-number, [])
    else:
        require_end(outcome, number)
    assert ("3 of 8 heads were certified before" in outcome.out) == (number == signal.SIGINT)
    assert not list(tmp_path.iterdir())


RAY = ("--engine", "ray", "--workers", 2)
WRITING = ("identiformer.runs.folder:RunFolder.write_shard", 1, 0.5, None)
"""When the first shard is written, the other worker is in the middle of one."""
SHARED = {
    "certification": (Command(("run", "long.tsv", "--model", "encoder", "--measures", "reading"), {}, ("--resume",)), WRITING),
    "attribution": (
        Command(("run", "long.tsv", "--model", "encoder", "--measures", "token_attribution"), {}, ("--resume",)),
        WRITING,
    ),
    "comparison": (Command(("compare", "long.tsv", "--model", "encoder"), {}, ("--resume",)), WRITING),
    "finetuning": (
        Command(("paper", "--data", "glue", "--model", "encoder", "--quick", "--figures", "12", "--workers", 2), {}),
        ("identiformer.paper.computations.sharing:finetune_each", 1, 10, "finetuned/*/settings.json"),
    ),
}
"""Commands that two workers share, and when to interrupt them: a call, a part of its time, and a worker's file to wait for."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("name", SHARED)
def test_workers_end_with_the_command(prepared, tmp_path, name):
    pytest.importorskip("ray")
    command, (function, call, share, files) = SHARED[name]
    kind, whole = command.arguments[0], tmp_path / "whole"
    done(words(prepared, command, whole))
    engine = () if "--workers" in command.arguments else RAY
    for number in SIGNALS:
        out = tmp_path / f"{number!s}"
        parallel = [*words(prepared, command, out), *engine]
        outcome = interrupt(function, call, share, *parallel, number=number, awaited=files and (out, files))
        print(f"{name} {number!s}: {outcome.seconds:.2f} s, {outcome.errors.strip()}")
        require_end(outcome, number)
        assert kind == "paper" or re.search("[01] of 3 shards are finished", outcome.errors)
        assert not list(out.rglob("scores.json"))
        done([*words(prepared, command, out), *command.resumed])
        assert same(made(kind, out), made(kind, whole))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("share", [1, 100], ids=["at once", "later"])
def test_workers_that_are_starting_end_with_the_command(prepared, tmp_path, share):
    pytest.importorskip("ray")
    command, _ = SHARED["certification"]
    arguments = [*words(prepared, command, tmp_path / "run"), *RAY]
    starting = "identiformer.engines.ray:DriverProcess.wait_until_started"
    require_end(interrupt(starting, 1, share, *arguments), signal.SIGINT)
