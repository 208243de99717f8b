"""From one recorded call to what a trace keeps of it: one example, without padding, in weights or in factored form."""

import torch
from torch import Tensor

from identiformer.equations import factor_outputs
from identiformer.equations.attention.summaries import attention_squared_norms
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.models.attention.call import OWN_SCORES, Call
from identiformer.models.attention.sites import Site
from identiformer.trace import AttentionLayer, FactoredLayer, RecordedLayer, transmitted


def layer_of(
    call: Call, weights: Tensor | None, site: Site, number: int, example: int, queries: int, keys: int, raw_norms: bool
) -> AttentionLayer:
    """Cut one example out of a padded call."""
    visible = call.visibility(example, queries, keys)
    sink = "sink" in call.extras
    projection, lossy = site.projection(), site.lossy_heads()
    values = call.value[example, :, :keys].cpu()
    if weights is not None:
        own = weights[example, :, :queries, :keys]
        product = not call.extras & {"softcap", OWN_SCORES}
        return RecordedLayer(
            number,
            visible,
            sink,
            projection,
            own,
            values,
            keys=call.key[example, :, :keys].cpu() if product and call.key is not None else None,
            queries=call.query[example, :, :queries].cpu() if product and call.query is not None else None,
            scaling=call.scaling,
            lossy_heads=lossy,
            value_bias=site.value_bias(),
        )
    if not bool(torch.isfinite(call.output).all()):
        raise InputError(f"expected finite head outputs, got NaN or infinity at layer {number}; check the model's weights.")
    outputs = call.output[example, :queries].transpose(0, 1).cpu()
    passed_outputs, passed_values = (transmitted(tensor, projection, lossy) for tensor in (outputs, values))
    factored = factor_outputs(passed_outputs, passed_values, visible, values.dtype)
    norms = None
    if raw_norms:
        if call.extras:
            raise UnsupportedModelError(
                f"raw norms cannot be streamed where {', '.join(sorted(call.extras))} shapes the weights; use form='weights'."
            )
        assert call.query is not None
        assert call.key is not None
        query, key = call.query[example, :, :queries].cpu(), call.key[example, :, :keys].cpu()
        norms = attention_squared_norms(query, key, call.scaling, visible)
    return FactoredLayer(number, sink, factored, norms)


def check_positions(call: Call, lengths: list[tuple[int, int]], family: str) -> None:
    """Refuse attention over anything but the tokens: positions pooled, windows cut out, others put before them."""
    texts = len(lengths)
    if len(call.output) != texts:
        raise UnsupportedModelError(
            f"the {family} family attends in {len(call.output)} pieces where {texts} is given, each by itself; which stands "
            "for which cannot be told."
        )
    queries, keys = map(max, zip(*lengths, strict=True))
    found = call.output.shape[1], call.value.shape[2]
    padded = call.weights is not None and not bool(call.weights[:, :, :queries, keys:].any())
    if found == (queries, keys) or (found[0] >= queries and found[1] >= keys and padded):
        return
    raise UnsupportedModelError(
        f"the {family} family attends from {found[0]} to {found[1]} positions where the input has {queries} and {keys}; "
        "which stands for which cannot be told."
    )
