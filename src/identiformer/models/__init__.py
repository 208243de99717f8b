"""Hugging Face models: load them, run them, record their attention. The only package that imports transformers."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that stored hidden states can be read without transformers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
