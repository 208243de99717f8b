"""Results: labeled arrays that record where they came from, checked against a schema and stored on disk."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that a run's summary is printed without waiting for xarray.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
