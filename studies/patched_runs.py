"""Runs of a model on one text with some attention rows patched."""

from functools import cached_property

import torch
from torch import Tensor

from identiformer.models import Model
from identiformer.models.interventions.patching import Weights, patched_states
from identiformer.trace import Trace


class PatchedRuns:
    """Runs on the text of a trace; each returns the model's output (position width) in float64.

    The output is that of the last layer, also of a model with a head.
    """

    def __init__(self, model: Model, trace: Trace) -> None:
        self._model = model
        self._batch = model.encode(trace.source["text"], trace.source.get("pair"), True)
        self._calls = list(range(len(trace.stack().layers)))
        self.causal = not bool(trace.layer(1).visible.dense()[0].all())

    @torch.no_grad()
    def output(self, weights: Weights) -> Tensor:
        """The output with the weights of some heads, {(layer, head): (query key)}, in place of the model's."""
        replica = self._model.replica()
        states = patched_states(replica, lambda: self._model.forward(replica, self._batch.inputs), self._calls, weights)
        return states["output"][0].double()

    @cached_property
    def unpatched(self) -> Tensor:
        """The output with the model's own weights."""
        return self.output({})

    def change(self, weights: Weights) -> float:
        """‖y' - y‖/‖y‖ of the output y over all positions."""
        return float((self.output(weights) - self.unpatched).norm() / self.unpatched.norm())

    def distance(self, output: Tensor, reference: "PatchedRuns") -> float:
        """How far an output is from the unpatched one of another run.

        1 - cos of the hidden vectors for an encoder; for a language model the Kullback-Leibler divergence of the next token,
        whose logits are the products with the tied embedding. Means over positions.
        """
        if self.causal:
            return divergence(reference.logits(reference.unpatched), self.logits(output))
        return cosine_distance(reference.unpatched, output)

    def logits(self, output: Tensor) -> Tensor:
        """The logits of the next token at each position."""
        return output @ self._model.network.get_input_embeddings().weight.detach().double().mT


def cosine_distance(first: Tensor, second: Tensor) -> float:
    """1 - cos of two outputs, a mean over positions; as ½‖û - v̂‖², which is exact for small distances."""
    first, second = (torch.nn.functional.normalize(each, dim=-1) for each in (first, second))
    return float((first - second).square().sum(-1).mean() / 2)


def divergence(first: Tensor, second: Tensor) -> float:
    """The Kullback-Leibler divergence of the second logits from the first, a mean over positions."""
    first, second = (each.log_softmax(-1) for each in (first, second))
    return float((first.exp() * (first - second)).sum(-1).mean())
