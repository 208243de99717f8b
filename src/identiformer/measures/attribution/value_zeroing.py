"""What a layer loses without the values of a token, and whether raw or effective attention tells so beforehand."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.attribution.agreement import row_correlation
from identiformer.errors import UnsupportedModelError
from identiformer.measures.attention.effective import effective_attention
from identiformer.measures.selection import Numbers, chosen
from identiformer.models import Model
from identiformer.models.interventions.value_zeroing import zeroing_effects
from identiformer.progress import work_bar
from identiformer.results import describe
from identiformer.trace import Trace

MAPS = ("raw", "effective")


def value_zeroing(
    model: Model,
    text: str | Tensor,
    pair: str | None = None,
    *,
    layers: Numbers | None = None,
    special: bool = True,
    truncate: bool = False,
    progress: bool = False,
) -> xr.Dataset:
    """Value Zeroing of a text: how far each hidden vector turns when a layer does without one token's values.

    Mohebbi et al., "Quantifying Context Mixing in Transformers" (2023). In one layer alone the values of a source are set to
    zero in all heads, their bias included; the attention weights stay as they are, and are not shared out anew.

    Over (layer target source): `effect`, 1 - cos of the target's vector behind that layer, with and without the change; zero
    where the target cannot see the source.
    Over (layer target): `raw_agreement` and `effective_agreement`, Pearson's correlation of a row of `effect`, over the sources
    that it sees, with attention: the mean over heads of |a| and of |a⊥|. NaN where one of the two does not vary.
    Layers count from 1, targets and sources from 0. The vector is what the layer itself gives: also of the last layer, and
    without the norm that some models have behind it. An encoder-decoder is looked at in its encoder; a vision model takes an
    image in place of the text, as in `Model.trace`.

    layers: only these; it takes as long as all. special=False leaves [CLS], [SEP] and the like out of the sources that the
        agreement is over: much attention goes there, and little depends on it.
    """
    if model.network.config.is_encoder_decoder and pair is not None:
        raise UnsupportedModelError(f"values of {model.name}, an encoder-decoder, are zeroed in its encoder only; give one text.")
    trace = model.trace(text, pair, truncate=truncate, form="weights")
    stack = trace.stack()
    asked = chosen(layers, len(stack.layers), "layer", first=1)
    with work_bar("zeroing values", progress) as bar:
        effects = zeroing_effects(model, text, pair, set(asked), truncate, bar)
    visible = torch.stack([trace.layer(layer).visible.dense() for layer in asked])
    effect = torch.stack([effects[layer] for layer in asked]).masked_fill_(~visible, 0)  # but for rounding it is so
    counted = visible if special else visible & ~torch.tensor(stack.keys.special)
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"effect": (("layer", "target", "source"), effect.numpy())}
    attention = torch.stack([_mean_over_heads(trace, layer) for layer in asked], 1)
    for name, maps in zip(MAPS, attention, strict=True):
        variables[f"{name}_agreement"] = (("layer", "target"), row_correlation(effect, maps, counted).numpy())
    coordinates = {
        "layer": asked,
        "target": np.arange(len(stack.queries)),
        "source": np.arange(len(stack.keys)),
        "target_token": ("target", list(stack.queries.texts)),
        "source_token": ("source", list(stack.keys.texts)),
        "source_special": ("source", list(stack.keys.special)),
    }
    return describe(xr.Dataset(variables, coordinates), "value_zeroing", trace.source, {"special": special})


def _mean_over_heads(trace: Trace, layer: int) -> Tensor:
    """The mean of |a| and of |a⊥|, (map target source), of one layer: the maps of all heads of all layers can be too many."""
    maps = effective_attention(trace, layers=[layer], matrices=True, spectrum=False)
    return torch.stack([torch.tensor(maps[name].values[0]).abs().mean(0) for name in MAPS])
