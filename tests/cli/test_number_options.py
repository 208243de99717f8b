"""Every numeric option of every command, with extreme values."""

import typing
from itertools import product

from identiformer.cli import app
from tests.cli.rejected import TEXT, rejected
from tests.glue import write_glue
from tests.runs.tiny import texts, write_tsv

EXTREMES = ("0", "-1", str(10**30), "nan", "inf", "1e400", "", "x" * 5000)
ACCEPTED = {
    ("inspect", "head"): ["0"],
    ("attribute", "token"): ["0"],
    ("explore", "port"): ["0"],
    **{(command, "seed"): ["0"] for command in ("attribute", "generate", "run", "compare", "identify", "finetune")},
    # More than there are means all.
    ("run", "directions"): [str(10**30)],  # which the default measures do not use
    ("run", "max_length"): [str(10**30)],
    ("run", "shard_size"): [str(10**30)],
    ("compare", "max_length"): [str(10**30)],
    ("identify", "max_length"): [str(10**30)],
    # Ray takes long to reject it.
    ("paper", "workers"): [str(10**30)],
}
"""Values in range, which are not tried here."""


def numeric_options():
    """The command and name of every option with a numeric type."""
    for command in app.registered_commands:
        assert command.callback is not None
        for name, hint in typing.get_type_hints(command.callback).items():
            if any(kind in str(hint) for kind in ("int", "float")):
                yield command.callback.__name__, name


def test_numbers_out_of_range_are_rejected_in_one_sentence(capsys, tiny_path, tmp_path):
    corpus, glue = write_tsv(tmp_path / "dev.tsv", texts(8)), write_glue(tmp_path / "glue", train=4, dev=4)
    target = ("--out", str(tmp_path / "out"))
    commands = {
        "inspect": ("inspect", TEXT),
        "attribute": ("attribute", "w1 w2"),
        "generate": ("generate", "w1 w2"),
        "explore": ("explore", "w1", "--no-browser"),
        "run": ("run", str(corpus), *target),
        "compare": ("compare", str(corpus), *target),
        "identify": ("identify", str(corpus), *target),
        "finetune": ("finetune", "--task", "MRPC", "--data", str(glue), *target),
        "train_variants": ("train-variants", "--task", "MRPC", "--data", str(glue), *target),
        "paper": ("paper", "--data", str(glue), "--figures", "2a", "--quick", *target),
    }
    options = list(numeric_options())
    assert len(options) > 15
    for (command, name), value in product(options, EXTREMES):
        if value not in ACCEPTED.get((command, name), ()):
            model = () if command == "train_variants" else ("--model", tiny_path)
            rejected(capsys, *commands[command], *model, f"--{name.replace('_', '-')}={value}")
    # Hidden states that were computed before a layer was checked are complete, and are reused.
    assert {path.name for path in tmp_path.glob("out/*")} <= {"lock", "states"}
