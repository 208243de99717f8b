"""Measure a corpus shard by shard, so that an interrupted run continues where it stopped."""

import os
import platform
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from identiformer import models, runs
from identiformer.engines import Engine, Job, RayEngine, SerialEngine
from identiformer.errors import InputError
from identiformer.folders import says_how_to_continue
from identiformer.models.generation.settings import Generation
from identiformer.models.loading.checks import check_load, check_writes
from identiformer.names import CHEAP_MEASURES, ENGINES, check_contest, check_name, choose_measures
from identiformer.options import DIRECTIONS, WEIGHTS_BUDGET
from identiformer.progress import RUN_PROGRESS, run_progress, status
from identiformer.runs.folder import RunFolder
from identiformer.runs.settings import Settings
from identiformer.texts import BLOCK, Columns, Corpus, Example, Survey, open_source, survey_corpus, tagging


def run(
    corpus: Corpus,
    model: "str | os.PathLike[str] | models.Model",
    measures: Sequence[str] = CHEAP_MEASURES,
    *,
    out: str | os.PathLike[str],
    engine: str = "serial",
    workers: int = 1,
    address: str | None = None,
    limit: int | None = None,
    max_length: int | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    corpus_format: str | None = None,
    chat: bool = False,
    system: str | None = None,
    generate: int | None = None,
    shard_size: int = BLOCK,
    part: str = "1/1",
    directions: int = DIRECTIONS,
    seed: int = 0,
    maps: Sequence[str] | None = None,
    yardsticks: Sequence[str] | None = None,
    resume: bool = False,
    keep_going: bool = False,
    device: str = "cpu",
    dtype: str = "auto",
    memory: int | str = WEIGHTS_BUDGET,
    allow_pickle: bool = False,
    progress: str = "none",
) -> "runs.Run":
    """Compute measures over a corpus, in a folder from which an interrupted run continues.

    The results are the same to the bit for every engine, number of workers, shard size and division into parts.

    Parameters
    ----------
    corpus : str, path or sequence
        A GLUE folder or file, a TSV or CSV file with a header, JSON Lines, plain text, "-" for standard input, the name of a
        Hugging Face dataset, or a sequence of texts, pairs of texts and `Example`.
    model : str, path or Model
        As in `load`, or a loaded model.
    measures : sequence of str
        Of effective_attention, attention_identifiability, token_attribution, self_contribution_by_tag, ambiguity, reading and
        faithfulness. Texts and tokens are always counted.
    out : str or path
        The folder of the run.
    engine : {"serial", "ray"}
        Compute in this process, or in Ray workers.
    workers : int
        Number of Ray workers.
    address : str, optional
        HOST:PORT of a Ray cluster; without it, Ray runs on this machine.
    limit : int, optional
        Use only the first `limit` examples.
    max_length : int, optional
        Truncate texts to this number of tokens, and count them. Without it, a text that is too long for the model
        is an error.
    text_column, pair_column : str, optional
        Columns of the text and of its pair, unless they have a name known from GLUE. A column named "sentence tags" holds the
        part-of-speech tags of "sentence", for self_contribution_by_tag.
    corpus_format : {"tsv", "csv", "jsonl", "lines", "paragraphs"}, optional
        The format of the file, if its suffix does not show it.
    chat : bool
        Put each text into the model's chat template, as a user's message, and let it answer.
    system : str, optional
        The system message of each chat.
    generate : int, optional
        Let a language model write up to this number of tokens after each text, greedily; 60 in a chat. Measures are then of
        prompt and answer: `reading` is of the rows that predict the answer, and explanations are of its first token.
    shard_size : int
        Examples per shard, a multiple of 32.
    part : str
        "2/5" computes the second of five parts, for `merge_runs`.
    directions : int
        Random directions per token, for token_attribution and self_contribution_by_tag; fewer are faster and less exact.
    seed : int
        Seed of the random directions and samples.
    maps, yardsticks : sequence of str, optional
        For faithfulness: the maps to judge and the yardsticks to judge them by, as in `compare`.
    resume : bool
        Continue the run in the folder, which must have the same settings.
    keep_going : bool
        Record examples that fail and leave them out, instead of raising an error at the first.
    device, dtype, memory, allow_pickle
        As in `load`, if `model` is not loaded yet.
    progress : {"none", "bar", "json"}
        Show a bar on standard error, or print JSON lines.

    Returns
    -------
    Run
        The results by measure.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     done = run(["A ferry is a boat."], "minilm", ["effective_attention"], out=f"{folder}/run")
    >>> done["effective_attention"].null_mass.dims
    ('layer', 'head')
    """
    if progress not in RUN_PROGRESS:
        raise InputError(f"expected progress as {', '.join(RUN_PROGRESS)}, got {progress!r}.")
    names = choose_measures(measures)
    contest = _contest(names, maps, yardsticks)
    generation = Generation.of(chat, system, generate)
    mapper = _engine(engine, workers, address, device)
    folder = RunFolder.at(out)
    folder.check(resume=resume)
    survey = survey_corpus(open_source(corpus, Columns(text_column, pair_column), corpus_format), limit)
    if generation is not None:
        _require_prompts(survey, max_length)
        survey = replace(survey, tagged=False)  # the words of answers have no tags
    if "self_contribution_by_tag" in names and not survey.tagged:
        tagging.load_tagger()  # raises where it is missing
    settings = Settings(
        revision="", architecture="", dtype="", device="", corpus_hash=survey.hash, examples=survey.examples, measures=names,
        max_length=max_length, directions=directions, seed=seed, shard_size=shard_size, part=part, versions={},
        generation=generation, **contest,
    )  # fmt: skip
    named = isinstance(model, str | os.PathLike)
    if named:
        path = check_load(os.fspath(model), device, dtype=dtype)
        if generation is not None:
            check_writes(os.fspath(model), path)
    with status("loading torch and transformers …", progress == "bar"):  # takes seconds, after all that is checked at once
        from identiformer.measures.contest import require_supported
        from identiformer.measures.corpus import packages_of
        from identiformer.models import load
        from identiformer.models.generation.generate import require_answers
        from identiformer.models.offloaded import device_of
        from identiformer.results import package_versions
        from identiformer.runs.finished_run import finish, open_run
        from identiformer.runs.worker import Worker, load_revision

    packages = packages_of(names, survey)
    options: Any = {"device": device, "dtype": dtype, "memory": memory, "allow_pickle": allow_pickle}
    loaded = load(model, **options) if named else model
    if generation is not None:
        require_answers(loaded, generation)
    if maps is not None or yardsticks is not None:
        require_supported(loaded, survey.block(0)[0], maps, yardsticks)
    network = loaded.network
    settings = replace(
        settings, revision=loaded.revision, architecture=type(network).__name__, device=device_of(network).type,
        dtype=str(network.dtype).removeprefix("torch."), versions=package_versions(*packages),
    )  # fmt: skip
    provenance = {
        **{name: value for name, value in loaded.identity.items() if name in ("model", "weights")},
        "corpus": survey.source.name,
        "python": platform.python_version(),
        "machine": platform.platform(),
    }
    # Ray workers load a model by its name, which is faster than sending its weights.
    sent = loaded
    if engine == "ray" and named:
        sent = partial(load_revision, os.fspath(model), settings.revision, **options)
    make_worker = partial(Worker, sent, names, max_length, keep_going, directions, seed, **contest, generation=generation)
    with folder.started(settings, provenance), says_how_to_continue(partial(folder.how_to_continue, settings)):
        _compute(folder, settings, survey, mapper, make_worker, progress)
        finish(folder, settings, settings.part_shards)
    return open_run(folder.path)


def _require_prompts(survey: Survey, max_length: int | None) -> None:
    """Raise InputError unless a language model can answer the texts of a corpus as they are."""
    if survey.paired:
        raise InputError(
            f"expected single texts for a language model to answer, got pairs in {survey.source.name}; choose one of the two "
            "with --text-column (text_column=)."
        )
    if max_length is not None:
        raise InputError(
            f"expected whole texts for a language model to answer, got a largest length of {max_length} tokens; leave it out, "
            "and skip texts that are too long with --keep-going (keep_going=True)."
        )


def _contest(measures: Sequence[str], maps: Sequence[str] | None, yardsticks: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """The names of maps and yardsticks for the measure that takes them; raises if they are unknown or nothing takes them."""
    if "faithfulness" not in measures:
        if maps is not None or yardsticks is not None:
            raise InputError("expected maps and yardsticks for the measure faithfulness only; add it to the measures.")
        return {"maps": (), "yardsticks": ()}
    check_contest(maps, yardsticks)
    return {"maps": tuple(dict.fromkeys(maps or ())), "yardsticks": tuple(dict.fromkeys(yardsticks or ()))}


def _engine(name: str, workers: int, address: str | None, device: str) -> Engine:
    if name == "ray":
        return RayEngine(workers, address, gpus_per_worker=1 if device.startswith("cuda") else 0)
    check_name("an engine", name, ENGINES)
    if workers != 1 or address is not None:
        raise InputError("the serial engine has one worker, in this process; use --engine ray for more, or for a cluster.")
    return SerialEngine()


def _compute(
    folder: RunFolder, settings: Settings, survey: Survey, engine: Engine, make_worker: Callable[[], Any], progress: str
) -> None:
    """Compute the shards of this part that have no valid file yet."""
    shards = settings.part_shards
    missing = [shard for shard in shards if folder.read_shard(settings, shard) is None]
    blocks_per_shard = settings.shard_size // BLOCK

    def blocks(shard: int) -> range:
        return range(shard * blocks_per_shard, min((shard + 1) * blocks_per_shard, len(survey.hashes)))

    def fetch(shard: int) -> list[tuple[int, list[Example]]]:
        return [(block * BLOCK, survey.block(block)) for block in blocks(shard)]

    def cost(shard: int) -> int:
        return sum(survey.characters[block] for block in blocks(shard))

    total, left = (sum(len(settings.examples_in(shard)) for shard in numbers) for numbers in (shards, missing))
    with (
        run_progress(progress, total, total - left, len(shards)) as bar,
        closing(engine.map(Job(make_worker, missing, fetch, cost, bar.running))) as results,
    ):
        for shard, result in results:
            folder.write_shard(settings, shard, result)
            bar.advance(len(settings.examples_in(shard)))
