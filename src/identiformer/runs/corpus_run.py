"""Measures over a corpus, a shard at a time, so that a run can be stopped at any moment and gone on with."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from identiformer.engines import Engine, Job, RayEngine, SerialEngine
from identiformer.errors import InputError, StoppedError
from identiformer.measures.attribution.hidden_token import DIRECTIONS
from identiformer.measures.corpus import CHEAP, choose_measures, packages_of
from identiformer.models import Model, load
from identiformer.runs.folder import RunFolder, folder_at
from identiformer.runs.opened import Run, open_run
from identiformer.runs.progress import FORMS, run_progress
from identiformer.runs.results import finish
from identiformer.runs.settings import Settings, provenance_of, settings_of
from identiformer.runs.worker import Block, NamedModel, Worker
from identiformer.texts import BLOCK, Columns, Corpus, Survey, open_source, survey_corpus

ENGINES = ("serial", "ray")


def run(
    corpus: Corpus,
    model: str | os.PathLike[str] | Model,
    measures: Sequence[str] = CHEAP,
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
    shard_size: int = BLOCK,
    part: str = "1/1",
    directions: int = DIRECTIONS,
    seed: int = 0,
    resume: bool = False,
    keep_going: bool = False,
    device: str = "cpu",
    dtype: str = "float32",
    allow_pickle: bool = False,
    progress: str = "none",
) -> Run:
    """Measure a corpus, and keep every finished shard: the answer is the same to the bit however it is cut and computed.

    corpus: a GLUE folder or file, a TSV or CSV file with a header, JSONL, plain text, "-" for standard input, the name of a
        Hugging Face dataset, or a list of texts and pairs. text_column, pair_column: where its texts are, if not under a known
        name; a column "sentence tags" holds the tags of the words of "sentence", for self_contribution_by_tag.
    corpus_format: tsv,
        csv, jsonl, lines or paragraphs, if not as the file's name says. limit: only the first so many.
    model: as in `load`, or a loaded one. device, dtype, allow_pickle: as in `load`, for a model that is named.
    measures: of effective_attention, attention_identifiability, token_attribution, self_contribution_by_tag, ambiguity;
        texts are counted always.
    out: the folder of the run. resume: go on with the run that is there, which must have the same settings.
    engine: "serial", or "ray" with so many workers, on this machine or on the cluster at an address.
    directions: random directions a token, for token_attribution and self_contribution_by_tag: fewer are faster and less exact.
    max_length: cut texts to so many tokens, and count them; otherwise one that is longer than the model takes is an error.
    keep_going: put examples that fail on record, and leave them out; otherwise the first one is an error.
    shard_size: examples in a shard, a multiple of 32. part: "2/5" computes the second of five parts, to be put together by
        `merge_runs`. progress: "bar", "json" or "none".
    """
    if progress not in FORMS:
        raise InputError(f"expected progress as {', '.join(FORMS)}, got {progress!r}.")
    chosen = choose_measures(measures)
    chosen_engine = _engine(engine, workers, address, device)
    folder = folder_at(out)
    (folder.check_resumable if resume else folder.check_free)()
    survey = survey_corpus(open_source(corpus, Columns(text_column, pair_column), corpus_format), limit)
    packages = packages_of(chosen, survey)
    loaded = model if isinstance(model, Model) else load(model, device=device, dtype=dtype, allow_pickle=allow_pickle)
    settings = settings_of(
        loaded, survey, measures=chosen, max_length=max_length, directions=directions, seed=seed, shard_size=shard_size,
        part=part, packages=packages,
    )  # fmt: skip
    # Workers elsewhere load a model by its name: that is quicker than to send it there.
    sent = loaded
    if engine == "ray" and not isinstance(model, Model):
        sent = NamedModel(os.fspath(model), settings.revision, device, dtype, allow_pickle)
    make_worker = partial(Worker, sent, chosen, max_length, keep_going, directions, seed)
    with folder.locked():
        folder.begin(settings, provenance_of(loaded, survey))
        _compute(folder, settings, survey, chosen_engine, make_worker, progress)
        finish(folder, settings, settings.own_shards)
    return open_run(folder.path)


def _engine(name: str, workers: int, address: str | None, device: str) -> Engine:
    if name == "ray":
        return RayEngine(workers, address, gpus_per_worker=1 if device.startswith("cuda") else 0)
    if name != "serial":
        raise InputError(f"expected an engine of {', '.join(ENGINES)}, got {name!r}.")
    if workers != 1 or address is not None:
        raise InputError("the serial engine has one worker, in this process; take --engine ray for more, or for a cluster.")
    return SerialEngine()


def _compute(
    folder: RunFolder, settings: Settings, survey: Survey, engine: Engine, make_worker: Callable[[], Worker], progress: str
) -> None:
    """Every shard of this part that has no sound file yet."""
    own = settings.own_shards
    missing = folder.missing(settings, own)
    per_shard = settings.shard_size // BLOCK

    def blocks(shard: int) -> range:
        return range(shard * per_shard, min((shard + 1) * per_shard, len(survey.hashes)))

    def fetch(shard: int) -> list[Block]:
        return [(block * BLOCK, survey.block(block)) for block in blocks(shard)]

    def cost(shard: int) -> int:
        return sum(survey.characters[block] for block in blocks(shard))

    total, left = (sum(map(settings.examples_in, shards)) for shards in (own, missing))
    with run_progress(progress, total, total - left, len(own)) as told:
        kept = len(own) - len(missing)
        try:
            for shard, result in engine.map(Job(make_worker, missing, fetch, cost, told.running)):
                folder.write_shard(settings, shard, result)
                told.advance(settings.examples_in(shard))
                kept += 1
        except StoppedError as error:
            rest = f"{kept} of {len(own)} shards are finished and kept in {folder.path}, so continue with --resume"
            raise StoppedError(error.reason, rest) from error
