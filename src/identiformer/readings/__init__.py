"""Readings: what results mean, in sentences."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that sentences do not wait for figures.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
