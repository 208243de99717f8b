"""Hugging Face models: load them, run them, record their attention. The only package that imports transformers."""

from typing import Any

import lazy_loader

from identiformer.errors import require_docstrings

# Names are in __init__.pyi and imported when first used, so that stored hidden states can be read without transformers.
_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    require_docstrings()
    return _import(name)
