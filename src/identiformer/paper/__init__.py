"""The paper's figures and claims, computed and graded for any model."""

import lazy_loader

# Names are in __init__.pyi and imported when first used, so that a command checks its data without waiting for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
