"""The equations of "On Identifiability in Transformers", one function each, on tensors or NumPy arrays."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that a model is loaded without waiting for SciPy.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
