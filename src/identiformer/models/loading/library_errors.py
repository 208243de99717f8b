"""The boundary to libraries that read a model's files: whatever they raise on broken or hostile ones becomes one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from identiformer.errors import IdentiformerError, ModelError

LONGEST_REASON = 240
"""Characters; some libraries answer with a page."""


@contextmanager
def one_sentence(problem: str) -> Iterator[None]:
    """Turn any error into a ModelError that names the problem and the reason; interrupting stays possible."""
    try:
        yield
    except (IdentiformerError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except MemoryError as error:
        raise ModelError(f"{problem}: it does not fit into memory; use a smaller one, or a machine with more.") from error
    except BaseException as error:  # a panic of the libraries in Rust is not an Exception
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"{problem}: it brings code of its own, which can do anything and was not run; read it, and if you trust it use "
                "allow_code=True."
            ) from error
        raise ModelError(f"{problem} ({_reason(error)}); check its files.") from error


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON].rsplit(" ", 1)[0] + " …"
    terse = isinstance(error, (ArithmeticError, AttributeError, LookupError, TypeError)) or not text
    return (f"{type(error).__name__}: {text}" if terse else text).rstrip(".:; ")
