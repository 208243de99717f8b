"""Every option of every command that takes a number, at its extremes."""

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
    **{(command, "seed"): ["0"] for command in ("attribute", "run", "identify", "finetune")},
    # As many as there are.
    ("run", "directions"): [str(10**30)],  # of which the default measures take none
    ("run", "max_length"): [str(10**30)],
    ("run", "shard_size"): [str(10**30)],
    ("identify", "max_length"): [str(10**30)],
    # Ray is asked, which takes its time to say no.
    ("paper", "workers"): [str(10**30)],
}
"""Numbers that are in range, if some are strange: they are not tried here."""


def numeric_options():
    """Every option of every command that takes a number, as the application itself says."""
    for command in app.registered_commands:
        assert command.callback is not None
        for name, hint in typing.get_type_hints(command.callback).items():
            if any(kind in str(hint) for kind in ("int", "float")):
                yield command.callback.__name__, name


def test_numbers_out_of_range_are_one_sentence(capsys, tiny_path, tmp_path):
    corpus, glue = write_tsv(tmp_path / "dev.tsv", texts(8)), write_glue(tmp_path / "glue", train=4, dev=4)
    place = ("--out", str(tmp_path / "out"))
    commands = {
        "inspect": ("inspect", TEXT),
        "attribute": ("attribute", "w1 w2"),
        "explore": ("explore", "w1", "--no-browser"),
        "run": ("run", str(corpus), *place),
        "identify": ("identify", str(corpus), *place),
        "finetune": ("finetune", "--task", "MRPC", "--data", str(glue), *place),
        "paper": ("paper", "--data", str(glue), "--figures", "2a", "--quick", *place),
    }
    options = list(numeric_options())
    assert len(options) > 15
    for (command, name), value in product(options, EXTREMES):
        if value not in ACCEPTED.get((command, name), ()):
            rejected(capsys, *commands[command], "--model", tiny_path, f"--{name.replace('_', '-')}={value}")
    # Hidden states that were computed before a layer was looked for are whole, and are found again.
    assert {path.name for path in tmp_path.glob("out/*")} <= {"lock", "states"}
