"""Runs: measures over a corpus, in a folder from which an interrupted run continues."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that a run's summary is printed without waiting for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
