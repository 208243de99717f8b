"""Value zeroing: the effect of each token's values on a layer's output, and its agreement with attention."""

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from identiformer.equations.attention.contributions import layer_contributions
from identiformer.equations.attribution.agreement import row_correlation
from identiformer.errors import UnsupportedModelError
from identiformer.measures.effective import effective_attention
from identiformer.measures.indices import Indices, select_indices
from identiformer.models import Model
from identiformer.models.interventions.removal import layer_effects
from identiformer.passage import Passage, Readable
from identiformer.progress import work_bar
from identiformer.results import make_result
from identiformer.trace import Trace

MAPS = ("raw", "effective", "contribution")


def value_zeroing(
    model: Model,
    text: Readable,
    pair: str | None = None,
    *,
    layers: Indices | None = None,
    special: bool = True,
    truncate: bool = False,
    progress: bool = False,
) -> xr.Dataset:
    """Value zeroing: how much each hidden vector changes when one layer loses the values of one token.

    Mohebbi et al., "Quantifying Context Mixing in Transformers" (2023). The values of a source, with their bias, are set to zero
    in all heads of one layer; attention weights are kept and not renormalized.

    Parameters
    ----------
    model : Model
        An encoder-decoder is measured in its encoder.
    text : str, Answer, Tensor or Passage
        A text, an answer of the model, or an image for a vision model, as in `Model.trace`.
    pair : str, optional
        The second text of a pair.
    layers : sequence of int, optional
        Return only these layers (from 1); the time is that of all layers.
    special : bool
        Whether agreement counts special tokens as sources: they receive much attention, and little depends on them.
    truncate : bool
        Truncate a text that is longer than the model accepts.
    progress : bool
        Show a progress bar.

    Returns
    -------
    xarray.Dataset
        `effect` (layer, target, source): 1 - cos of the target's vectors with and without the change, at the output of that
        layer and before any final norm; zero where the target cannot see the source. `raw_agreement`, `effective_agreement` and
        `contribution_agreement` (layer, target): Pearson's correlation of `effect` with the mean over heads of |a| and of |a⊥|,
        and with the contribution |P| to the layer's output, over visible sources; NaN where one of them is constant.

    Examples
    --------
    >>> import identiformer as idf
    >>> result = idf.value_zeroing(idf.load("minilm"), "He said.", layers=[1])
    >>> dict(result.effect.sizes)
    {'layer': 1, 'target': 5, 'source': 5}
    """
    if model.network.config.is_encoder_decoder and pair is not None:
        raise UnsupportedModelError(f"values of {model.name}, an encoder-decoder, are zeroed in its encoder only; pass one text.")
    passage = Passage.of(model, text, pair, truncate=truncate)
    trace = passage.recorded
    stack = trace.stack()
    numbers = select_indices(layers, len(stack.layers), "layer", first=1)
    with work_bar("zeroing values", progress) as bar:
        effects = layer_effects(model, passage.batch, set(numbers), bar)
    visible = torch.stack([trace.layer(layer).visible.dense() for layer in numbers])
    effect = torch.stack([effects[layer] for layer in numbers]).masked_fill_(~visible, 0)  # removes rounding errors
    counted = visible if special else visible & ~torch.tensor(stack.keys.special)
    attention = torch.stack([_attention_maps(trace, layer) for layer in numbers], 1)
    pairs = zip(MAPS, attention, strict=True)
    arrays = {"effect": effect, **{f"{name}_agreement": row_correlation(effect, maps, counted) for name, maps in pairs}}
    coordinates = {
        "layer": numbers,
        "target": np.arange(len(stack.queries)),
        "source": np.arange(len(stack.keys)),
        "target_token": ("target", list(stack.queries.texts)),
        "source_token": ("source", list(stack.keys.texts)),
        "source_special": ("source", list(stack.keys.special)),
    }
    return make_result("value_zeroing", arrays, coordinates, trace.source, {"special": special})


def _attention_maps(trace: Trace, layer: int) -> Tensor:
    """The maps of one layer (map target source): means over heads of |a| and of |a⊥|, and |P|. Those of all may not fit."""
    maps = effective_attention(trace, layers=[layer], matrices=True, spectrum=False)
    means = [torch.tensor(maps[name].values[0]).abs().mean(0) for name in MAPS[:2]]
    record = trace.layer(layer).recorded()
    return torch.stack([*means, layer_contributions(record.weights, record.values, record.projection).abs().to(means[0])])
