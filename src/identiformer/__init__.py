"""identiformer: what may a transformer's attention map be taken to mean?"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identiformer import equations, figures
    from identiformer.explorer.explore import explore
    from identiformer.measures import (
        ambiguity,
        attention_identifiability,
        attention_variants,
        certified_share,
        effective_attention,
        gradient_times_input,
        identify,
        learning_curve,
        token_attribution,
        token_identifiability,
        token_neighbours,
        token_steps,
        token_transfer,
        value_zeroing,
    )
    from identiformer.models import Model, load, watch_attention
    from identiformer.notebook.show import show
    from identiformer.paper import reproduce
    from identiformer.probes import Method, TokenProbe
    from identiformer.readings import certify_head, inspect_text
    from identiformer.results import open_result, save_result
    from identiformer.runs import Run, merge_runs, open_run, run
    from identiformer.runs.finetuning import Finetuned, finetune
    from identiformer.texts import Example, read_corpus, read_wikitext, segments
    from identiformer.texts.tagging.tags import penn_tags
    from identiformer.trace import LayerAttention, Trace

# Imported when first used, so that `import identiformer` does not wait for torch.
_HOMES = {
    "Example": "identiformer.texts",
    "Finetuned": "identiformer.runs.finetuning",
    "LayerAttention": "identiformer.trace",
    "Method": "identiformer.probes",
    "Model": "identiformer.models",
    "Run": "identiformer.runs",
    "TokenProbe": "identiformer.probes",
    "Trace": "identiformer.trace",
    "ambiguity": "identiformer.measures",
    "attention_identifiability": "identiformer.measures",
    "attention_variants": "identiformer.measures",
    "certified_share": "identiformer.measures",
    "certify_head": "identiformer.readings",
    "effective_attention": "identiformer.measures",
    "explore": "identiformer.explorer.explore",
    "finetune": "identiformer.runs.finetuning",
    "gradient_times_input": "identiformer.measures",
    "identify": "identiformer.measures",
    "inspect_text": "identiformer.readings",
    "learning_curve": "identiformer.measures",
    "load": "identiformer.models",
    "merge_runs": "identiformer.runs",
    "open_result": "identiformer.results",
    "open_run": "identiformer.runs",
    "penn_tags": "identiformer.texts.tagging.tags",
    "run": "identiformer.runs",
    "read_corpus": "identiformer.texts",
    "read_wikitext": "identiformer.texts",
    "reproduce": "identiformer.paper",
    "save_result": "identiformer.results",
    "segments": "identiformer.texts",
    "show": "identiformer.notebook.show",
    "token_attribution": "identiformer.measures",
    "token_identifiability": "identiformer.measures",
    "token_neighbours": "identiformer.measures",
    "token_steps": "identiformer.measures",
    "token_transfer": "identiformer.measures",
    "value_zeroing": "identiformer.measures",
    "watch_attention": "identiformer.models",
}
_MODULES = ("equations", "figures")

__version__ = "0.1.0"
__all__ = [
    "Example",
    "Finetuned",
    "LayerAttention",
    "Method",
    "Model",
    "Run",
    "TokenProbe",
    "Trace",
    "ambiguity",
    "attention_identifiability",
    "attention_variants",
    "certified_share",
    "certify_head",
    "effective_attention",
    "equations",
    "explore",
    "figures",
    "finetune",
    "gradient_times_input",
    "identify",
    "inspect_text",
    "learning_curve",
    "load",
    "merge_runs",
    "open_result",
    "open_run",
    "penn_tags",
    "read_corpus",
    "read_wikitext",
    "reproduce",
    "run",
    "save_result",
    "segments",
    "show",
    "token_attribution",
    "token_identifiability",
    "token_neighbours",
    "token_steps",
    "token_transfer",
    "value_zeroing",
    "watch_attention",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"identiformer.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'identiformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
