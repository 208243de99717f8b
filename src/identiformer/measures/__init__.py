"""Measures: from a trace, or a model and a corpus, to a labeled Dataset."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that each command waits only for what it needs.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
