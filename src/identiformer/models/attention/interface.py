"""Record what attention does, through transformers' attention interface or beside it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.masking_utils import eager_mask, sdpa_mask

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call
from identiformer.models.attention.custom_modules import watching

WEIGHTS, FUSED = "identiformer_weights", "identiformer_fused"


Receiver = Callable[[Call], Tensor | None]
_receiver: ContextVar[Receiver] = ContextVar("receiver")


def _outcome(call: Call) -> Tensor:
    """What the model goes on with: the call's own output, or what the receiver gives in its place."""
    replacement = _receiver.get()(call)
    return call.output if replacement is None else replacement


def _extras(module: nn.Module, options: dict[str, Any]) -> frozenset[str]:
    given = {name for name in ("softcap", "position_bias", "s_aux") if options.get(name) is not None}
    return frozenset(given | ({"sink"} if "s_aux" in given or hasattr(module, "sinks") else set()))


def _scaling(query: Tensor, options: dict[str, Any]) -> float:
    scaling = options.get("scaling")
    return query.shape[-1] ** -0.5 if scaling is None else float(scaling)


def _attend_with_weights(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        raise UnsupportedModelError(
            f"the attention of {type(module).__name__} has no eager form to record; use a model whose family has one."
        )
    output, weights = eager(module, query, key, value, attention_mask, **options)
    extras = _extras(module, options)
    scaling = _scaling(query, options)
    call = Call(module, query, key, value, output, weights, attention_mask, False, scaling, extras)
    return _outcome(call), weights


def _attend_fused(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    extras = _extras(module, options)
    if extras & {"softcap", "sink"}:
        raise UnsupportedModelError(
            f"{type(module).__name__} has a {' and a '.join(sorted(extras))}, which no fused kernel knows; use form='weights' "
            "and a shorter text."
        )
    output, _ = AttentionInterface()["sdpa"](module, query, key, value, attention_mask, **options)
    told = options.get("is_causal")
    causal = attention_mask is None and query.shape[2] > 1 and bool(getattr(module, "is_causal", True) if told is None else told)
    scaling = _scaling(query, options)
    call = Call(module, query, key, value, output, None, attention_mask, causal, scaling, extras)
    return _outcome(call), None


# The mask functions must be registered under the same names, or masks vanish without a word.
AttentionInterface.register(WEIGHTS, _attend_with_weights)
AttentionMaskInterface.register(WEIGHTS, eager_mask)
AttentionInterface.register(FUSED, _attend_fused)
AttentionMaskInterface.register(FUSED, sdpa_mask)


@contextmanager
def recording(replica: nn.Module, implementation: str, receive: Receiver, experts: str | None = None) -> Iterator[None]:
    """Within this context every attention call of a replica is recorded; afterwards it attends as it did before.

    replica: of the user's network, which is itself never changed.
    What `receive` returns takes the place of the call's output; None leaves it. experts: how a mixture of them is computed.
    """
    found = (getattr(module, "config", None) for module in replica.modules())
    configs = {id(config): config for config in found if isinstance(config, PreTrainedConfig)}.values()
    before = [dict(vars(config)) for config in configs]
    token = _receiver.set(receive)
    try:
        for config in configs:
            config._attn_implementation_internal = implementation
            if experts is not None:
                config._experts_implementation_internal = experts
        with torch.no_grad(), watching(replica, _outcome):
            yield
    finally:
        _receiver.reset(token)
        for config, own in zip(configs, before, strict=True):
            vars(config).clear()
            vars(config).update(own)
