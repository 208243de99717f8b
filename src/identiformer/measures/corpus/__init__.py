"""Measures over a corpus: one small state of integers per example; states add up, in any order, to the same bits."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that the shards of a run can be read without torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
