"""Results from many threads are bit-identical to those from one, and other uses of the network are not disturbed."""

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from threading import Barrier, Event
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import xarray as xr
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

import identiformer as idf
from identiformer.models.encoding.text import encode_one
from identiformer.models.hidden_states.recording import hidden_states
from tests.models.families import OUTSIDE_THE_INTERFACE, SERVED, word_tokenizer, words
from tests.models.network_state import network_state, process_state

THREADS = 8
LENGTHS = (3, 9, 17, 30)


def encoder() -> Any:
    config = AutoConfig.for_model("bert", **SERVED["bert"], num_labels=3)
    return AutoModelForSequenceClassification.from_config(config, attn_implementation="sdpa").eval()


def decoder() -> Any:
    config = AutoConfig.for_model("llama", **SERVED["llama"])
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def bits(value: Any) -> Any:
    """All numbers of a result, as bytes."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.detach().contiguous().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, xr.Dataset):
        return {str(name): bits(variable.values) for name, variable in value.variables.items() if variable.dtype.kind in "iufb"}
    if is_dataclass(value):
        return {field.name: bits(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [bits(item) for item in value]
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return value


@contextmanager
def eager_switching() -> Iterator[None]:
    """Switch threads a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


Job = Callable[[], Any]


def plain(network: Any, length: int) -> Any:
    """The output of the user's network when it is called directly."""
    ids = torch.tensor([word_tokenizer()(words(length))["input_ids"]])
    with torch.no_grad():
        return network(input_ids=ids).logits


def rerun(model: idf.Model, length: int) -> Any:
    trace = model.trace(words(length))
    weights = trace.layer(1).weights
    assert weights is not None
    return model.rerun(trace, {(1, 1): weights[0]})


def states(model: idf.Model) -> Any:
    with hidden_states(model, [idf.Example(words(length)) for length in LENGTHS], None) as actual:
        return [np.array(actual.inputs), *map(np.array, actual.hidden)]


def traces(model: idf.Model) -> list[Job]:
    """Traces of all forms, of single texts and batches, and with gradients enabled."""

    def with_gradients() -> Any:
        with torch.enable_grad():
            return model.trace(words(9))

    return [
        *(lambda length=length: model.trace(words(length), form="weights") for length in LENGTHS),
        *(lambda length=length: model.trace(words(length), form="factored", raw_norms=True) for length in LENGTHS),
        lambda: model.trace([words(length) for length in LENGTHS]),
        lambda: model.limited(8).trace(words(20), truncate=True),
        with_gradients,
    ]


def others(model: idf.Model) -> list[Job]:
    """Everything else that runs a network."""
    return [
        lambda: rerun(model, 9),
        lambda: states(model),
        lambda: idf.token_attribution(model, words(7), directions=2),
        lambda: idf.gradient_times_input(model, words(7)),
        lambda: idf.value_zeroing(model, words(9)),
    ]


def storm(network: Any, jobs_of: Callable[[idf.Model], list[Job]], rounds: int) -> None:
    """Run jobs in all threads at once, each in its own order, on a model that has not run before."""
    plain_jobs = [lambda length=length: plain(network, length) for length in LENGTHS]
    expected = [bits(job()) for job in jobs_of(idf.load(network, word_tokenizer())) + plain_jobs]
    before, everywhere = network_state(network), process_state()
    jobs = jobs_of(idf.load(network, word_tokenizer())) + plain_jobs
    start = Barrier(THREADS)

    def worker(seed: int) -> None:
        chance = random.Random(seed)
        start.wait()
        for _ in range(rounds):
            number = chance.randrange(len(jobs))
            assert bits(jobs[number]()) == expected[number], f"job {number} returns other numbers in a thread"

    with eager_switching(), ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(worker, seed) for seed in range(THREADS)]:
            done.result()
    assert network_state(network) == before
    assert process_state() == everywhere
    assert [bits(job()) for job in plain_jobs] == expected[-len(plain_jobs) :]


@pytest.mark.parametrize("network", [encoder, decoder])
def test_traces_in_threads_are_bit_identical(network):
    storm(network(), traces, 5)


@pytest.mark.parametrize("network", [encoder, decoder])
def test_everything_that_runs_a_network_is_bit_identical_in_threads(network):
    storm(network(), lambda model: traces(model) + others(model), 3)


@pytest.mark.slow
@pytest.mark.parametrize("network", [encoder, decoder])
def test_many_traces_in_threads_are_bit_identical(network):
    storm(network(), traces, 200)


def linearized() -> Any:
    """A network whose derivative is traced, by torch's patches of all modules of the process."""
    config = AutoConfig.for_model("gpt2", **SERVED["gpt2"])
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def with_custom_gradients() -> Any:
    """A network that attends outside the interface, and has autograd functions with hand-written gradients."""
    return AutoModelForCausalLM.from_config(AutoConfig.for_model("bloom", **OUTSIDE_THE_INTERFACE["bloom"])).eval()


@pytest.mark.slow
@pytest.mark.parametrize("network", [encoder, decoder, linearized, with_custom_gradients])
# Python keeps filters of warnings for the whole process, so a thread that leaves a filter can lift that of another.
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_many_runs_of_everything_are_bit_identical_in_threads(network):
    fused = network is not with_custom_gradients
    storm(network(), lambda model: (traces(model) if fused else []) + others(model), 40)


def test_gradients_of_the_user_are_unchanged_while_another_thread_differentiates_forward():
    """BLOOM's activation has a hand-written gradient, which attribution replaces in its own thread alone."""
    network = with_custom_gradients()
    model = idf.load(network, word_tokenizer())
    function, *_ = model.input_function(words(5))
    ids = torch.tensor([[2, 5, 12, 3]])

    def gradient() -> Any:
        loss = network(input_ids=ids).logits.square().sum()
        return torch.autograd.grad(loss, network.transformer.word_embeddings.weight)[0]

    expected, kinds = bits(gradient()), set()

    def name_of_gradient(_: Any, __: Any, result: Any) -> None:
        kinds.add(type(result.grad_fn).__name__)

    inside, go_on = Event(), Event()

    def held_up(*_: Any) -> None:
        inside.set()
        go_on.wait(60)

    function.site.register_forward_pre_hook(held_up)
    network.transformer.h[0].mlp.gelu_impl.register_forward_hook(name_of_gradient)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(function.run, function.no_change)
        assert inside.wait(60)
        actual = bits(gradient())
        go_on.set()
        done.result()
    assert actual == expected
    assert kinds == {"GeLUFunctionBackward"}


def test_kernels_of_the_user_are_unchanged_while_another_thread_differentiates():
    model = idf.load(encoder(), word_tokenizer())
    function, *_ = model.input_function(words(5))
    everywhere, within = process_state(), []
    function.site.register_forward_pre_hook(lambda *_: within.append(process_state()))
    function.run(function.no_change)
    assert within == [everywhere]


@pytest.mark.parametrize("max_length", [None, 8, 16])
def test_tokens_are_correct_while_the_user_truncates_and_pads(max_length):
    tokenizer = word_tokenizer()
    expected = encode_one(word_tokenizer(), words(12), words(9), max_length)["input_ids"]
    done = Event()

    def use() -> None:
        while not done.is_set():
            tokenizer(words(30), truncation=True, max_length=5)
            tokenizer(words(30), padding="max_length", max_length=40)

    with eager_switching(), ThreadPoolExecutor(1) as pool:
        pool.submit(use)
        actual = [encode_one(tokenizer, words(12), words(9), max_length)["input_ids"] for _ in range(500)]
        done.set()
    assert all(ids == expected for ids in actual)


def test_loading_in_threads_restores_the_verbosity_of_transformers(tiny_path):
    everywhere = process_state()
    transformers.logging.set_verbosity_info()
    transformers.logging.enable_progress_bar()
    try:
        wanted = process_state()
        with eager_switching(), ThreadPoolExecutor(THREADS) as pool:
            models = list(pool.map(lambda _: idf.load(tiny_path), range(3 * THREADS)))
        assert process_state() == wanted
    finally:
        transformers.logging.set_verbosity(everywhere["verbosity"])
        if not everywhere["bars"]:
            transformers.logging.disable_progress_bar()
    first = bits(models[0].trace(words(5)))
    assert all(bits(model.trace(words(5))) == first for model in models[1:])
