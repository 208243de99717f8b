"""What may a transformer's attention map be taken to mean? Public names are in `__init__.pyi`."""

import os
import sys
from importlib.metadata import version

import lazy_loader

# Each name is imported when it is first used, so that `import identiformer` does not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = version("identiformer")


def _compute_with_one_thread() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # A forked process inherits OpenMP's pool without its threads, and would wait for them forever.
    os.register_at_fork(after_in_child=_compute_with_one_thread)
