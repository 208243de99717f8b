"""Record attention through transformers' attention interface, and outside it by `custom_modules`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.masking_utils import eager_mask, sdpa_mask

from identiformer.errors import UnsupportedModelError
from identiformer.models.attention.call import Call, Receiver, received, receiving, with_prefix
from identiformer.models.attention.custom_modules import watching
from identiformer.models.offloaded import is_offloaded

WEIGHTS, FUSED = "identiformer_weights", "identiformer_fused"


def _extras(module: nn.Module, options: dict[str, Any]) -> frozenset[str]:
    extras = {name for name in ("softcap", "position_bias", "s_aux") if options.get(name) is not None}
    return frozenset(extras | ({"sink"} if "s_aux" in extras or hasattr(module, "sinks") else set()))


def _scaling(query: Tensor, options: dict[str, Any]) -> float:
    scaling = options.get("scaling")
    return query.shape[-1] ** -0.5 if scaling is None else float(scaling)


def _attend_with_weights(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        raise UnsupportedModelError(f"the attention of {type(module).__name__} has no eager form to record; use another family.")
    key, value, attention_mask = with_prefix(key, value, attention_mask)
    call = partial(eager, module, query, key, value, attention_mask, **options)
    output, weights = call()
    extras, scaling = _extras(module, options), _scaling(query, options)
    # A position bias is as large as the weights, and offloaded weights are gone after the call.
    repeatable = not extras & {"position_bias"} and not is_offloaded(module)
    again = partial(_weights_again, call) if repeatable else None
    recorded = Call(module, value, output, weights, extras, query, key, attention_mask, scaling=scaling, again=again)
    return received(recorded), weights


@torch.no_grad()
def _weights_again(call: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
    return call()[1]


def _attend_fused(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    extras, scaling = _extras(module, options), _scaling(query, options)
    if extras & {"softcap", "sink"}:
        raise UnsupportedModelError(
            f"{type(module).__name__} has a {' and a '.join(sorted(extras))}, which no fused kernel supports; use form='weights' "
            "and a shorter text."
        )
    key, value, attention_mask = with_prefix(key, value, attention_mask)
    output, _ = AttentionInterface()["sdpa"](module, query, key, value, attention_mask, **options)
    option = options.get("is_causal")
    is_causal = bool(getattr(module, "is_causal", True) if option is None else option)
    causal = attention_mask is None and query.shape[2] > 1 and is_causal
    return received(Call(module, value, output, None, extras, query, key, attention_mask, causal, scaling)), None


# Mask functions must be registered under the same names: without one, transformers silently applies no mask.
AttentionInterface.register(WEIGHTS, _attend_with_weights)
AttentionMaskInterface.register(WEIGHTS, eager_mask)
AttentionInterface.register(FUSED, _attend_fused)
AttentionMaskInterface.register(FUSED, sdpa_mask)


@contextmanager
def recording(replica: nn.Module, implementation: str, receiver: Receiver, experts: str | None = None) -> Iterator[None]:
    """Send every attention call of a replica of the user's network to a receiver.

    `implementation` is WEIGHTS or FUSED; `experts` chooses how transformers computes a mixture of experts.
    """
    configs = (getattr(module, "config", None) for module in replica.modules())
    with ExitStack() as undo:
        for config in {id(config): config for config in configs if isinstance(config, PreTrainedConfig)}.values():
            undo.callback(vars(config).update, dict(vars(config)))
            undo.callback(vars(config).clear)
            config._attn_implementation_internal = implementation
            if experts is not None:
                config._experts_implementation_internal = experts
        with receiving(receiver), torch.no_grad(), watching(replica):
            yield
