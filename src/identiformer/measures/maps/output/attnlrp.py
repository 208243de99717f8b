"""AttnLRP: layer-wise relevance propagation with rules for attention."""

from functools import partial

from torch import Tensor

from identiformer.measures.attribution.gradient_times_input import input_gradient
from identiformer.measures.maps.kind import MapKind
from identiformer.measures.maps.output.gradients import GRADIENTS
from identiformer.models.derivatives.input_function import differentiable
from identiformer.models.derivatives.relevance import relevance_rules
from identiformer.passage import Passage


def attnlrp(passage: Passage) -> Tensor:
    """Σ over the width of x_j · the gradient of f by the rules of AttnLRP."""
    _ = passage.blocks  # rules are known for the operations of these layouts only
    function = passage.target_function
    with relevance_rules(function.network):
        target = partial(input_gradient, function, lambda result: passage.target.value(result)[0])
        _, gradient = differentiable(function, target)
    return (function.x * gradient).double().sum(-1).cpu()


ATTNLRP = MapKind(
    name="attnlrp",
    title="AttnLRP",
    formula="⟨x_j, ∇̃f_j⟩, with ∇̃ the gradient by relevance rules: norms and activations proportional, products in equal parts",
    paper="Achtibat et al. (2024)",
    cost="8",
    compute=attnlrp,
    needs=f"{GRADIENTS}, blocks of BERT, Llama or GPT-2",
    signed=True,
    explains_output=True,
)
