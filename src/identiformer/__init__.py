"""What may a transformer's attention map be taken to mean? Public names are in `__init__.pyi`."""

from importlib.metadata import version

import lazy_loader

# Each name is imported when it is first used, so that `import identiformer` does not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = version("identiformer")
