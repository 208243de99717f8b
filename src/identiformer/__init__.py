"""identiformer: what may a transformer's attention map be taken to mean?"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identiformer import equations, figures
    from identiformer.measures import (
        ambiguity,
        attention_identifiability,
        attention_variants,
        certify_head,
        effective_attention,
        gradient_times_input,
        inspect_text,
        token_attribution,
    )
    from identiformer.models import Model, load
    from identiformer.results import open_result, save_result
    from identiformer.runs import Run, merge_runs, open_run, run
    from identiformer.trace import LayerAttention, Trace

# Imported when first used, so that `import identiformer` does not wait for torch.
_HOMES = {
    "LayerAttention": "identiformer.trace",
    "Model": "identiformer.models",
    "Run": "identiformer.runs",
    "Trace": "identiformer.trace",
    "ambiguity": "identiformer.measures",
    "attention_identifiability": "identiformer.measures",
    "attention_variants": "identiformer.measures",
    "certify_head": "identiformer.measures",
    "effective_attention": "identiformer.measures",
    "gradient_times_input": "identiformer.measures",
    "inspect_text": "identiformer.measures",
    "load": "identiformer.models",
    "merge_runs": "identiformer.runs",
    "open_result": "identiformer.results",
    "open_run": "identiformer.runs",
    "run": "identiformer.runs",
    "save_result": "identiformer.results",
    "token_attribution": "identiformer.measures",
}
_MODULES = ("equations", "figures")

__version__ = "0.1.0"
__all__ = [
    "LayerAttention",
    "Model",
    "Run",
    "Trace",
    "ambiguity",
    "attention_identifiability",
    "attention_variants",
    "certify_head",
    "effective_attention",
    "equations",
    "figures",
    "gradient_times_input",
    "inspect_text",
    "load",
    "merge_runs",
    "open_result",
    "open_run",
    "run",
    "save_result",
    "token_attribution",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"identiformer.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'identiformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
