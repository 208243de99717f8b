"""Workers: from the examples of a shard to the states of the measures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from identiformer.errors import InputError, RunError, raise_interruption
from identiformer.measures.corpus import MEASURES, Failure, Observation, State
from identiformer.models import Answer, Model, load
from identiformer.models.encoding.text import loses_a_long_word
from identiformer.models.generation.settings import Generation
from identiformer.options import DIRECTIONS
from identiformer.passage import Passage
from identiformer.runs.folder import ShardResult
from identiformer.texts import Example
from identiformer.trace import Trace

BATCH = 8
BATCH_BUDGET = 2**28
"""Bytes of attention weights per batch, unless a single text needs more."""

Block = tuple[int, list[Example]]
"""Examples that are computed together, and the number of the first in the corpus."""


def load_revision(name: str, revision: str, **options: Any) -> Model:
    """Load a model by name in a worker, on whose machine it must be of the revision of the settings."""
    model = load(name, **options)
    if model.revision != revision:
        raise RunError(f"expected revision {revision} of {name} on every machine, got {model.revision} on one of them.")
    return model


class Worker:
    """Holds a model, and measures the blocks of one shard per call."""

    def __init__(
        self,
        model: Model | Callable[[], Model],
        measures: tuple[str, ...],
        max_length: int | None = None,
        keep_going: bool = False,
        directions: int = DIRECTIONS,
        seed: int = 0,
        maps: tuple[str, ...] = (),
        yardsticks: tuple[str, ...] = (),
        generation: Generation | None = None,
    ) -> None:
        loaded = model if isinstance(model, Model) else model()
        self.model = loaded if max_length is None else loaded.limited(max_length)
        self.measures = tuple(MEASURES[name] for name in measures)
        self.tracing = any(measure.needs_trace for measure in self.measures)
        self.limit = self.model.positions or 2**31
        self.cuts = max_length is not None
        self.keep_going = keep_going
        self.directions, self.seed = directions, seed
        self.options = {"maps": maps, "yardsticks": yardsticks}
        self.generation = generation
        self.failures: list[Failure] = []

    def __call__(self, blocks: Sequence[Block]) -> ShardResult:
        self.failures = []
        states = {measure.name: State.empty() for measure in self.measures}
        with one_thread():
            observations = self._observations if self.generation is None else partial(self._answers, self.generation)
            for first, examples in blocks:
                for observation in observations(first, examples):
                    for measure in self.measures:
                        observe = partial(measure.observe, observation)
                        state = self._try(observation.index, observation.example, measure.name, observe)
                        states[measure.name] = states[measure.name].merge(state or State.empty())
        return ShardResult(states, tuple(sorted(self.failures, key=lambda failure: (failure.example, failure.what))))

    def _observations(self, first: int, examples: list[Example]) -> Iterator[Observation]:
        """Run the model over one block; batches depend on the block alone, so that results do not depend on the shards."""
        lengths = {
            index: length
            for index, example in enumerate(examples, start=first)
            if (length := self._try(index, example, "tokenizing", partial(self._length, example)))
        }
        for batch in self._batches({index: min(length, self.limit) for index, length in lengths.items()}, first, examples):
            batched = [examples[index - first] for index in batch]
            for index, example, trace in zip(batch, batched, self._traces(batch, batched), strict=True):
                if trace is not None or not self.tracing:
                    passage = self._passage(example, index, examples, example, trace)
                    long_words = loses_a_long_word(self.model.tokenizer, passage.tokens, example.text, example.pair)
                    cut = lengths[index] > self.limit or long_words
                    yield Observation(passage, example, index, self.seed, cut, long_words, **self.options)

    def _answers(self, generation: Generation, first: int, examples: list[Example]) -> Iterator[Observation]:
        """Let the model answer each text of a block, one at a time, and run it over prompt and answer."""
        for index, example in enumerate(examples, start=first):
            answer: Answer | None = self._try(index, example, "answering", partial(self._answer, generation, example))
            if answer is None:
                continue
            run = partial(self.model.trace, answer, form="weights")
            trace = self._try(index, example, "running", run) if self.tracing else None
            if trace is not None or not self.tracing:
                lost = loses_a_long_word(self.model.tokenizer, answer.tokens, answer.prompt)
                passage = self._passage(example, index, examples, answer, trace)
                yield Observation(passage, example, index, self.seed, lost, lost, **self.options)

    def _passage(
        self, example: Example, index: int, examples: list[Example], text: Example | Answer, trace: Trace | None
    ) -> Passage:
        """What measures are computed from. Each text has directions of its own: errors that all share would not average out."""
        others = tuple(other for other in examples if other is not example)
        seed, trace = (self.seed << 32) + index, trace and _compact(trace)
        return Passage.of(self.model, text, truncate=True, trace=trace, seed=seed, directions=self.directions, others=others)

    def _answer(self, generation: Generation, example: Example) -> Answer:
        answer = self.model.generate(example.text, **vars(generation))
        self._require_space(len(answer.tokens), "shorten the prompt")
        return answer

    def _length(self, example: Example) -> int:
        for text in (example.text, example.pair):
            if text is not None and not text.strip():
                raise InputError("expected a text, got an empty one.")
        length = self.model.length(example.text, example.pair)
        if length == 0:
            raise InputError("expected a text with at least one token, got one for which the tokenizer returns none.")
        if length > self.limit and not self.cuts:
            raise InputError(f"expected at most {self.limit} tokens, got {length}; cut texts with --max-length {self.limit}.")
        self._require_space(min(length, self.limit), "cut long texts with a smaller --max-length")
        return length

    def _require_space(self, length: int, remedy: str) -> None:
        """Raise InputError if the attention weights of this many tokens are needed and do not fit."""
        size = self.model.weights_size(length)
        if self.tracing and size > self.model.memory:
            limit = self.model.memory / 2**30
            raise InputError(
                f"expected attention weights of at most {limit:.3g} GiB, got {size / 2**30:.3g} GiB; {remedy}, or allow more "
                "with --memory (memory=)."
            )

    def _batches(self, lengths: dict[int, int], first: int, examples: list[Example]) -> Iterator[list[int]]:
        """Batch examples of similar length, so that there is little padding; pairs and single texts are separate."""
        paired = {index: examples[index - first].pair is not None for index in lengths}
        batch: list[int] = []
        for index in sorted(lengths, key=lambda index: (paired[index], lengths[index], index)):
            full = len(batch) == BATCH or (len(batch) + 1) * self.model.weights_size(lengths[index]) > BATCH_BUDGET
            if batch and (full or paired[index] != paired[batch[0]]):
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def _traces(self, batch: list[int], examples: list[Example]) -> list[Trace | None]:
        if not self.tracing:
            return [None] * len(batch)
        try:
            return list(self._run(examples))
        except Exception as error:
            raise_interruption(error)
            # Run one by one, so that only the examples that fail are lost.
            singles = [
                self._try(index, example, "running", partial(self._run, [example]))
                for index, example in zip(batch, examples, strict=True)
            ]
            return [traces[0] if traces else None for traces in singles]

    def _run(self, examples: list[Example]) -> list[Trace]:
        pairs = [example.pair for example in examples if example.pair is not None]
        return self.model.trace([example.text for example in examples], pairs or None, truncate=True, form="weights")

    def _try(self, index: int, example: Example, what: str, call: Callable[[], Any]) -> Any:
        """Call a function; if it raises, raise an error that names the example, or record it and return None with keep_going."""
        try:
            return call()
        except Exception as error:
            raise_interruption(error)
            reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            if not self.keep_going:
                raise RunError(
                    f"{what} failed on example {index} ({example.text[:60]!r}): {reason.rstrip('.')}; repair or remove it, or "
                    f"record and skip it with --keep-going (keep_going=True)."
                ) from error
            self.failures.append(Failure(index, example.text[:200], what, reason))
            return None


def _compact(trace: Trace) -> Trace:
    """Copy the weights of an example out of its batch, so that all layers can be measured in one step."""
    first, *others = trace.stacks
    if first.weights is None:
        return trace
    return replace(trace, stacks=(replace(first, weights=first.weights.contiguous()), *others))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: the order of sums in a matrix product depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
