"""Figures: from a Dataset to matplotlib axes, without computing."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that only figures wait for matplotlib.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
