"""No function changes the network of a model, not even by a hook, whether it succeeds or fails midway."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

import identiformer as idf
from identiformer.models.encoding.image_audio import random_image
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.support.tiny_models import tiny_model
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, SERVED, WORDS, build, word_tokenizer, words
from tests.models.network_state import network_state, process_state

CORPUS = [" ".join(np.random.default_rng(number).choice(WORDS[:30], 9)) for number in range(12)]


@dataclass(frozen=True)
class Case:
    """A model and an input for it."""

    model: idf.Model
    text: Any
    pair: str | None = None


def bert() -> Case:
    return Case(idf.load(build("bert", SERVED["bert"]), word_tokenizer()), words(9), words(4))


def classifier() -> Case:
    config = AutoConfig.for_model("bert", **SERVED["bert"], num_labels=3)
    network = AutoModelForSequenceClassification.from_config(config, attn_implementation="sdpa")
    return Case(idf.load(network, word_tokenizer()), words(9))  # in training mode


def llama() -> Case:
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SERVED["llama"])).eval()
    return Case(idf.load(network, word_tokenizer()), words(9))


def t5() -> Case:
    return Case(idf.load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer()), words(9), words(5))


def outside(family: str) -> Case:
    return Case(idf.load(build(family, OUTSIDE_THE_INTERFACE[family]), word_tokenizer()), words(9))


def vit() -> Case:
    network = tiny_model("vit")
    return Case(idf.load(network), random_image(network))


CASES = {
    "bert": bert,
    "classifier": classifier,
    "llama": llama,
    "t5": t5,
    "bloom": lambda: outside("bloom"),
    "deberta": lambda: outside("deberta"),
    "big_bird": lambda: outside("big_bird"),
    "longformer": lambda: outside("longformer"),
    "vit": vit,
}


def rerun(case: Case) -> None:
    tensor = case.text if isinstance(case.text, torch.Tensor) else None
    trace = case.model.trace(case.text, case.pair)
    kind = trace.stacks[0].kind
    weights = trace.layer(1, kind).weights
    assert weights is not None
    case.model.rerun(trace, {(1, 0): weights[0]}, kind=kind, tensor=tensor)


def certify(case: Case) -> None:
    trace = case.model.trace(case.text, case.pair)
    tensor = case.text if isinstance(case.text, torch.Tensor) else None
    idf.certify_head(case.model, trace, 1, 0, kind=trace.stacks[0].kind, tensor=tensor)


def read(case: Case) -> None:
    idf.read(case.model, case.text, case.pair, layers=[1, 2], processes=1)


def sinks(case: Case) -> None:
    tensor = case.text if isinstance(case.text, torch.Tensor) else None
    trace = case.model.trace(case.text, case.pair)
    idf.sink_effects(case.model, trace, 1, 0, kind=trace.stacks[0].kind, tensor=tensor)


def move(case: Case) -> None:
    tensor = case.text if isinstance(case.text, torch.Tensor) else None
    trace = case.model.trace(case.text, case.pair)
    idf.move_weight(case.model, trace, 1, 0, 2, source=0, target=1, kind=trace.stacks[0].kind, tensor=tensor)


def states(case: Case) -> None:
    with hidden_states(case.model, [idf.Example(text) for text in CORPUS], None):
        pass


def attribute_answer(case: Case) -> None:
    tokens = case.model.tokens(case.text)
    idf.answer_attribution(case.model, idf.Answer(case.model, case.text, "", tokens, len(tokens) - 2, (0.5, 0.5)))


USES = {
    "trace": lambda case: case.model.trace(case.text, case.pair),
    "factored": lambda case: case.model.trace(case.text, case.pair, form="factored"),
    "batch": lambda case: case.model.trace([words(9), words(4)]),
    "rerun": rerun,
    "certify_head": certify,
    "read": read,
    "sink_effects": sinks,
    "move_weight": move,
    "hidden_states": states,
    "token_attribution": lambda case: idf.token_attribution(case.model, case.text, directions=4),
    "exact attribution": lambda case: idf.token_attribution(case.model, case.text, exact=True, norm="spectral", targets=[1]),
    "gradient_times_input": lambda case: idf.gradient_times_input(case.model, case.text, output=output),
    "answer_attribution": attribute_answer,
    "value_zeroing": lambda case: idf.value_zeroing(case.model, case.text),
    "weight_effects": lambda case: idf.weight_effects(case.model, case.text, case.pair, largest=2, draws=2),
    "strongest_weights": lambda case: idf.strongest_weights(case.model, case.text, count=2, draws=2, texts=0),
    "idle_attention": lambda case: idf.idle_attention(case.model, case.text, case.pair, draws=2),
    "value_parts": lambda case: idf.value_parts(case.model, case.text, texts=4, draws=2, others=CORPUS),
    "maps": lambda case: idf.maps(case.model, case.text),
    "faithfulness": lambda case: idf.faithfulness(case.model, case.text, maps=["raw"], yardsticks=REMOVALS),
}
REMOVALS = ["edge_knockout_renormalized", "value_mean_output"]
OVER_A_CORPUS = (
    "compare",
    "identify",
    "learning_curve",
    "run",
    "token_identifiability",
    "token_neighbors",
    "token_steps",
    "token_transfer",
)
"""Functions of a model and a corpus; they use hidden states or traces, which are tested here separately."""
APART = {"explore", "finetune", "load", "open_picture", "recover_prompt", "reproduce", "reproduce_papers"}
"""A server, training of a copy, functions that call the rest, one that runs nothing, and one for causal models alone."""


def output(result: Any) -> torch.Tensor:
    return next(value for value in result.values() if isinstance(value, torch.Tensor)).flatten()[0]


@cache
def takes_a_model() -> list[str]:
    functions = {name: getattr(idf, name) for name in idf.__all__ if inspect.isfunction(getattr(idf, name))}
    return sorted(name for name, function in functions.items() if "model" in inspect.signature(function).parameters)


def test_every_public_function_of_a_model_is_tested():
    assert set(takes_a_model()) <= {*USES, *OVER_A_CORPUS, *APART}


QUICK = {
    **dict.fromkeys(("bert", "llama"), tuple(USES)),
    "t5": ("trace", "rerun", "hidden_states"),
    "bloom": ("trace", "rerun", "value_zeroing"),
    "deberta": ("trace", "rerun", "value_zeroing"),
    "vit": ("trace", "rerun", "value_zeroing"),
}
UNFIT = {
    "bert": {"answer_attribution"},  # which is of language models
    "classifier": {"answer_attribution"},
    "t5": {"gradient_times_input", "answer_attribution"},
    "bloom": {"factored", "answer_attribution"},
    "deberta": {"factored", "answer_attribution"},
    "big_bird": {"factored", "answer_attribution"},
    "longformer": set(USES) - {"trace", "batch", "rerun", "certify_head"},
    "vit": {  # of texts
        "batch",
        "hidden_states",
        "gradient_times_input",
        "answer_attribution",
        "maps",
        "faithfulness",
        "value_parts",
    },
}
"""Reasons for which a family is rejected."""


def matrix(families: Iterable[str], quick: Mapping[str, Sequence[str]]) -> list[Any]:
    """Families and uses; those that take long are marked slow."""
    return [
        pytest.param(family, use, marks=() if use in quick.get(family, ()) else pytest.mark.slow)
        for family in families
        for use in USES
        if use not in UNFIT.get(family, ())
    ]


@pytest.mark.parametrize(("family", "use"), matrix(CASES, QUICK))
def test_a_network_is_unchanged(family, use):
    case = CASES[family]()
    network, everywhere = network_state(case.model.network), process_state()
    USES[use](case)
    assert network_state(case.model.network) == network
    assert process_state() == everywhere


class MidwayError(Exception):
    """An error in the middle of a run."""


@pytest.mark.parametrize(
    ("family", "use"),
    matrix(["bert", "llama", "t5", "bloom", "vit"], {"bert": ("trace", "rerun", "hidden_states"), "llama": tuple(USES)}),
)
def test_a_network_is_unchanged_after_a_run_fails_midway(family, use):
    """A hook of the user raises deep in the network, at one run after another."""
    case = CASES[family]()
    backbone = case.model.backbone
    stack = backbone.get_encoder() if backbone.config.is_encoder_decoder else backbone
    deep = [module for module in stack.modules() if isinstance(module, torch.nn.Linear)][-4]
    runs_left = 0

    def fail(*_: Any) -> None:
        nonlocal runs_left
        runs_left -= 1
        if runs_left < 0:
            raise MidwayError

    deep.register_forward_hook(fail)
    network, everywhere = network_state(case.model.network), process_state()
    for runs in range(2):
        runs_left = runs
        with pytest.raises(MidwayError):
            USES[use](case)
        assert network_state(case.model.network) == network
        assert process_state() == everywhere


@pytest.mark.parametrize(
    "use", [use if use == "token_identifiability" else pytest.param(use, marks=pytest.mark.slow) for use in OVER_A_CORPUS]
)
def test_a_corpus_leaves_a_network_unchanged(use, tmp_path):
    case = bert()
    network, everywhere = network_state(case.model.network), process_state()
    corpus = [*CORPUS, *reversed(CORPUS)]
    if use == "run":
        idf.run(corpus, case.model, ["texts", "effective_attention", "token_attribution"], out=tmp_path / "run")
    elif use == "compare":
        idf.compare(corpus, case.model, ["raw"], REMOVALS, out=tmp_path / "compare")
    elif use == "identify":
        idf.identify(case.model, corpus, tmp_path / "identify", resplits=1)
    else:
        getattr(idf, use)(case.model, corpus, resplits=1)
    assert network_state(case.model.network) == network
    assert process_state() == everywhere
