"""A corpus run that is interrupted inside an example does not record it, and continues to the bits of an undisturbed run."""

import pytest

import identiformer as idf
from identiformer.errors import RunError
from identiformer.finetuning.training import KeepLastCheckpoint
from identiformer.measures.faithfulness import judging
from identiformer.measures.heads import certification
from identiformer.measures.identifiability.experiment import Tally
from identiformer.models import Model
from identiformer.models.derivatives.jacobian_norms import ForwardNorms
from tests.glue import write_glue
from tests.killed import listed
from tests.runs.tiny import bits, content, texts

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def interrupting(monkeypatch):
    """Let the n-th call of a method or function be interrupted after it was computed."""

    def replace(owner, name, call, error=KeyboardInterrupt, imports=False):
        original, calls = getattr(owner, name), []

        def interrupted(*arguments, **options):
            calls.append(name)
            result = original(*arguments, **options)
            if len(calls) == call:
                try:
                    raise error
                except BaseException as interruption:
                    if imports:
                        raise ImportError("initialization failed") from interruption  # as extension modules do
                    raise
            return result

        monkeypatch.setattr(owner, name, interrupted)

    return replace


@pytest.mark.parametrize(
    ("measure", "owner", "name", "call", "shards", "error"),
    [
        ("reading", certification, "_certify", 5, 1, KeyboardInterrupt),  # of 8 heads: in the middle of the first example
        pytest.param("reading", certification, "_certify", 32 * 8 + 5, 2, SystemExit, marks=pytest.mark.slow),
        ("token_attribution", ForwardNorms, "_add", 3, 1, KeyboardInterrupt),
        ("faithfulness", judging, "_equal", 3, 1, SystemExit),
        ("effective_attention", Model, "trace", 1, 1, KeyboardInterrupt),
    ],
)
def test_an_interrupted_example_is_never_recorded(tiny, interrupting, tmp_path, measure, owner, name, call, shards, error):
    """In the last shard, so that those before it are finished."""
    corpus, out, options = texts(32 * (shards - 1) + 2, 4), tmp_path / "run", {"directions": 2}
    options |= {"maps": ["raw", "norm_layer"], "yardsticks": ["value_zeroing"]} if measure == "faithfulness" else {}
    interrupting(owner, name, call, error, imports=measure in ("token_attribution", "effective_attention"))
    with pytest.raises(error) as stopped:
        idf.run(corpus, tiny, [measure], out=out, keep_going=True, **options)
    rest = f"{shards - 1} of {shards} shards are finished and kept in {out}, so continue with --resume"
    assert stopped.value.__notes__ == [rest]
    assert [len(listed(out / "shards")), (out / "finished.json").exists()] == [shards - 1, False]
    for use in (idf.open_run, lambda folder: idf.merge_runs([folder], tmp_path / "merged")):
        with pytest.raises(
            RunError, match=r"is not finished: . of . shards are done|shards in the parts together, but . are missing"
        ):
            use(out)
    resumed = idf.run(corpus, tiny, [measure], out=out, resume=True, keep_going=True, **options)
    whole = idf.run(corpus, tiny, [measure], out=tmp_path / "whole", **options)
    assert bits(resumed) == bits(whole)
    assert content(out) == content(whole.path)
    assert not resumed.failures
    assert all(result.attrs["complete"] == 1 for result in resumed.results.values())


def test_an_interrupted_training_continues_to_the_same_weights(tiny_path, interrupting, tmp_path):
    data = write_glue(tmp_path / "glue")
    whole = idf.finetune(tiny_path, "MRPC", data, out=tmp_path / "whole", epochs=1)
    interrupting(KeepLastCheckpoint, "on_save", 2)
    with pytest.raises(KeyboardInterrupt) as stopped:
        idf.finetune(tiny_path, "MRPC", data, out=tmp_path / "out", epochs=1)
    assert "run the same command again to continue" in stopped.value.__notes__[-1]
    assert not (tmp_path / "out" / "scores.json").exists()
    done = idf.finetune(tiny_path, "MRPC", data, out=tmp_path / "out", epochs=1)
    assert not done.reused
    assert content(done.path) == content(whole.path)


def test_an_interrupted_identify_writes_no_result(tiny, interrupting, tmp_path):
    options = {"methods": ["naive cosine"], "resplits": 2}
    whole = idf.identify(tiny, texts(20), tmp_path / "whole", **options)
    interrupting(Tally, "add", 2)
    with pytest.raises(KeyboardInterrupt) as stopped:
        idf.identify(tiny, texts(20), tmp_path / "out", **options)
    assert "run the same command again to continue" in stopped.value.__notes__[-1]
    assert not list((tmp_path / "out").glob("*.zarr"))
    again = idf.identify(tiny, texts(20), tmp_path / "out", **options)
    assert again["token_identifiability"].identical(whole["token_identifiability"])
