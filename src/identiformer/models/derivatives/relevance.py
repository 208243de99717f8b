"""AttnLRP: layer-wise relevance propagation as the gradient of a network whose operations have other derivatives.

Relevance is x times the gradient of the output, where (Achtibat et al. 2024, §3)
- a norm divides by a constant (its statistics are not differentiated), which is the identity rule;
- an activation f(x) is x times the constant f(x)/x, also the identity rule;
- a product of two quantities that depend on the input (AV, QKᵀ, a gate times features) has half its derivative, so that relevance
  is shared in equal parts between the factors: the uniform rule;
- softmax has its derivative, which is its Taylor rule; linear maps have theirs, which is the 0-rule.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

PRODUCTS = {torch.matmul, torch.bmm, torch.mul, Tensor.matmul, Tensor.__matmul__, Tensor.bmm, Tensor.mul, Tensor.__mul__}
ACTIVATIONS = {functional.gelu, functional.silu, functional.relu, functional.tanh, torch.tanh, torch.relu, Tensor.tanh}
STATISTICS = {torch.rsqrt, Tensor.rsqrt}
"""By which an RMSNorm multiplies."""
COMPOSED_ACTIVATIONS = "transformers.activations"
"""Where modules compute an activation by several operations, as GPT-2's approximate GELU is."""


@contextmanager
def relevance_rules(network: nn.Module) -> Iterator[None]:
    """Within it, gradients with respect to inputs of a replica follow the rules of AttnLRP; outputs do not change."""
    with ExitStack() as undo:
        for module in network.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:  # so that what requires a gradient is what depends on the input
                    undo.callback(module._parameters.__setitem__, name, parameter)
                    module._parameters[name] = nn.Parameter(parameter.detach(), requires_grad=False)
            if type(module).__module__ == COMPOSED_ACTIVATIONS:
                undo.enter_context(module.register_forward_hook(_after_activation))
        undo.enter_context(_Rules())
        yield


def _after_activation(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    return _proportional(inputs[0], output)


class _Rules(TorchFunctionMode):
    """Replaces the derivatives of products, activations and norms, in this thread alone."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in STATISTICS:
            return func(*args, **kwargs).detach()
        if func is functional.layer_norm:
            return _layer_norm(*args, **kwargs)
        output = func(*args, **kwargs)
        if func in ACTIVATIONS:
            return _proportional(args[0] if args else kwargs["input"], output)
        if func in PRODUCTS and len(args) == 2 and all(isinstance(factor, Tensor) and factor.requires_grad for factor in args):
            return (output + output.detach()) / 2
        return output


def _proportional(x: Tensor, output: Tensor) -> Tensor:
    """The output, with the derivative of x·(output/x) for a constant quotient."""
    quotient = torch.where(x == 0, 0, output / x).detach()
    return output.detach() + (x - x.detach()) * quotient


def _layer_norm(x: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    output = centered * (centered.detach().square().mean(-1, keepdim=True) + eps).rsqrt()
    output = output if weight is None else output * weight
    return output if bias is None else output + bias
