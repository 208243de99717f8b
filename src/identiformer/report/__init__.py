"""Reports: one file each, which works offline and can be sent by mail."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that what is printed first does not wait for figures.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
