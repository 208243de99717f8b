"""Run a command that must fail."""

from identiformer.cli import run_command

TEXT = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12"


def rejected(capsys, *arguments):
    """Return the error of a command that must fail, which is one sentence."""
    status = run_command([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, ""), printed
    assert printed.err.startswith("error: ")
    assert len(printed.err.splitlines()) == 1, printed.err
    return printed.err
