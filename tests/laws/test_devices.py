"""Equations and measures compute where their tensors are: a tensor made elsewhere would fail on an accelerator."""

import copy
import dataclasses
import inspect

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.equations import Visibility
from identiformer.equations.attention.removal import average_values, knock_out_edges, zero_values
from identiformer.equations.identifiability.linear_maps import moments
from identiformer.equations.maps.rollout import attention_flow, gradient_attention, layer_mixing, traced_updates
from identiformer.equations.maps.rows import nearby_rows, random_rows, uniform_rows
from identiformer.measures.maps import MAPS
from identiformer.tokens import Tokens
from tests.laws.equations import arguments, public_equations
from tests.models.families import SERVED, build, word_tokenizer, words
from tests.simulated_device import SimulatedDevice, to_device, to_memory

SQUARE = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.2, 0.5, 0.3]], dtype=torch.float64)
VALUES = torch.tensor([[1.0, 0.5], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
CAUSAL = {"weights": SQUARE, "values": VALUES, "visible": Visibility.causal(3)}
STACKED = {**CAUSAL, "weights": SQUARE[None], "values": VALUES[None]}
MASKED = {
    **dict.fromkeys(("factor_weights", "layer_nullity", "leverage"), STACKED),
    **dict.fromkeys(("effective_attention", "map_bounds", "soft_attention", "weight_intervals"), CAUSAL),
}
LAYERS = SQUARE[None].repeat(2, 1, 1)
OTHERS = [
    (zero_values, SQUARE[None], VALUES[None]),
    (average_values, SQUARE[None], VALUES[None]),
    (knock_out_edges, SQUARE[None], VALUES[None]),
    (lambda *given: knock_out_edges(*given).of_head(0).relative_changes(), SQUARE[None], VALUES[None]),
    (moments, SQUARE, VALUES),
    (gradient_attention, LAYERS[:, None], LAYERS[:, None]),
    (traced_updates, SQUARE[:2], LAYERS),
    (lambda scores: attention_flow(layer_mixing(scores), (0, 1)), LAYERS),
    (uniform_rows, SQUARE > 0),
    (lambda visible: random_rows(visible, 0), SQUARE > 0),
    (nearby_rows, SQUARE > 0),
]


def numbers(result):
    """The arrays in a result, in order."""
    if dataclasses.is_dataclass(result):
        result = tuple(vars(result)[field.name] for field in dataclasses.fields(result))
    if isinstance(result, tuple | list):
        return [array for member in result for array in numbers(member)]
    result = to_memory(result)
    return [np.asarray(result)] if isinstance(result, torch.Tensor | np.ndarray | float | bool) else []


def same_on_the_device(function, *args, **kwargs):
    expected = numbers(function(*args, **kwargs))
    assert expected
    with SimulatedDevice():
        computed = numbers(function(*to_device(args), **to_device(kwargs)))
    for there, here in zip(computed, expected, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(public_equations().keys() - {"feasible_sets"}))
def test_equations(name):
    same_on_the_device(public_equations()[name], **arguments(name))


@pytest.mark.parametrize("name", sorted(MASKED))
def test_equations_with_a_mask_in_main_memory(name):
    function = public_equations()[name]
    accepted = inspect.signature(function).parameters
    given = {key: value for key, value in (arguments(name) | MASKED[name]).items() if key in accepted}
    if name == "layer_nullity":
        given["projection"] = torch.eye(2, dtype=torch.float64)[None]
    same_on_the_device(function, **given)


@pytest.mark.parametrize("function", OTHERS)
def test_functions_of_tensors_alone(function):
    same_on_the_device(*function)


MEASURES = {
    "ambiguity": lambda trace: idf.ambiguity(trace, layer=1, head=0, queries=[0, 3]),
    "attention_identifiability": lambda trace: idf.attention_identifiability(trace, layer=1),
    "attention_patterns": idf.attention_patterns,
    "attention_reading": lambda trace: idf.attention_reading(trace, layers=1),
    "attention_variants": lambda trace: idf.attention_variants(trace, layer=1),
    "certified_share": lambda trace: idf.certified_share(trace, layers=1, rows=1),
    "effective_attention": idf.effective_attention,
    "effective_attention of a row": lambda trace: idf.effective_attention(trace, heads=1, queries=[2]),
}


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("measure", sorted(MEASURES))
def test_measures_of_a_trace(family, measure):
    trace = idf.load(build(family, SERVED[family]), word_tokenizer()).trace(words(12))
    expected = MEASURES[measure](trace)
    with SimulatedDevice():
        computed = MEASURES[measure](on_the_device(trace))
    for name, array in expected.data_vars.items():
        if array.dtype.kind in "US":
            assert (computed[name] == array).all()
        else:
            np.testing.assert_allclose(computed[name].values, array.values, rtol=1e-6, atol=1e-6, err_msg=name)


def on_the_device(value):
    """A trace with its tensors on the device."""
    if isinstance(value, torch.Tensor):
        return to_device(value)
    if isinstance(value, tuple):
        return tuple(on_the_device(member) for member in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, Tokens):
        fields = {field.name: on_the_device(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        return dataclasses.replace(value, **fields)
    return value


def moved(network):
    """A copy of a network with its parameters and buffers on the device."""
    network = copy.deepcopy(network)
    for module in network.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            module._parameters[name] = torch.nn.Parameter(to_device(parameter.data), requires_grad=False)
        for name, buffer in list(module.named_buffers(recurse=False)):
            module._buffers[name] = to_device(buffer)
    return network


WITH_DERIVATIVES = {"token_attribution"}
MAP_KINDS = [kind.name for kind in MAPS.values() if not kind.explains_output and kind.name not in WITH_DERIVATIVES]
RUNS = {
    "recorded": lambda model: model.trace(words(8)).stacks[0].weights,
    "factored": lambda model: model.trace(words(8), form="factored").layer(2).effective().matrices(),
    "patched": lambda model: model.rerun(model.trace(words(8)), {(1, 0): UNIFORM}, allow_non_simplex=True).output.patched,
    "value zeroing": lambda model: idf.value_zeroing(model, words(8)).effect.values,
    "maps": lambda model: idf.maps(model, words(8), kinds=MAP_KINDS).score.values,
}
UNIFORM = torch.full((10, 10), 0.1)


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("run", sorted(RUNS))
def test_models(family, run):
    """Derivatives are left out: torch's forward-mode derivatives know no simulated devices."""
    network = build(family, SERVED[family])
    expected = numbers(RUNS[run](idf.load(network, word_tokenizer())))
    with SimulatedDevice():
        computed = numbers(RUNS[run](idf.load(moved(network), word_tokenizer())))
    for there, here in zip(computed, expected, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)
