"""The standard and the identifiable encoder: equal budgets, the same order of examples, resumed to the same bits."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.equations.identifiability.rates import difference_interval
from identiformer.errors import InputError
from identiformer.finetuning import variants as module
from identiformer.finetuning.training import KeepLastCheckpoint
from identiformer.finetuning.variants import train_variants, untrained, variants
from identiformer.texts import read_labeled
from tests.models.families import word_tokenizer


@pytest.fixture
def trec(tmp_path):
    """Six classes, each with a word of its own."""
    generator = np.random.default_rng(0)
    for name, count in (("train", 120), ("test", 30)):
        (tmp_path / "TREC").mkdir(exist_ok=True)
        labels = generator.integers(6, size=count)
        rows = [f"w{label} w{generator.integers(10, 90)}\t{label}" for label in labels]
        (tmp_path / "TREC" / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    return tmp_path


class Tiny:
    tokenizer = word_tokenizer()


@pytest.fixture(autouse=True)
def _tiny_tokenizer(monkeypatch):
    load = module.load
    monkeypatch.setattr(module, "load", lambda name, *rest: Tiny if name == "minilm" else load(name, *rest))


@pytest.mark.parametrize("key_width", [1, 4, 16])
def test_both_have_equally_many_weights(key_width):
    counted = {}
    for name, variant in variants(key_width).items():
        layer = untrained(variant.config, Tiny.tokenizer, 0).network.layers[0]
        counted[name] = sum(parameter.numel() for parameter in layer.parameters())
        norms = sum(
            parameter.numel() for parameter in (*layer.attention_norm.parameters(), *layer.feed_forward_norm.parameters())
        )
        assert variant.layer_parameters == counted[name] - norms
    assert abs(counted["identifiable"] / counted["standard"] - 1) < 0.05


@pytest.mark.slow
def test_a_task_of_six_labels_is_learned_and_continues_to_the_same_bits(trec, tmp_path, monkeypatch):
    options = {"seeds": [0], "epochs": 12}
    result = train_variants("TREC", trec, out=tmp_path / "whole", **options)
    assert float(result.accuracy.min()) > 0.9
    assert float(result.difference_low) <= float(result.difference) <= float(result.difference_high)
    assert idf.load(tmp_path / "whole" / "identifiable-0").network.config.num_labels == 6
    saved = 0

    def stop(*arguments):
        nonlocal saved
        save(*arguments)
        saved += 1
        if saved == 13:
            raise KeyboardInterrupt

    save = KeepLastCheckpoint.on_save
    with monkeypatch.context() as patch:
        patch.setattr(KeepLastCheckpoint, "on_save", lambda *arguments, **_: stop(*arguments))
        with pytest.raises(KeyboardInterrupt):
            train_variants("TREC", trec, out=tmp_path / "stopped", **options)
    again = train_variants("TREC", trec, out=tmp_path / "stopped", **options)
    assert again.equals(result)
    for name in ("standard-0", "identifiable-0"):
        whole, stopped = ((tmp_path / folder / name / "model.safetensors").read_bytes() for folder in ("whole", "stopped"))
        assert whole == stopped


def test_bad_input(trec, tmp_path):
    with pytest.raises(InputError, match="at least one seed"):
        train_variants("TREC", trec, out=tmp_path / "out", seeds=[])
    with pytest.raises(InputError, match="get movies from ERASER"):
        train_variants("movies", trec, out=tmp_path / "out")
    path = trec / "TREC" / "test.tsv"
    path.write_text(path.read_text() + "w1\t6\n")
    with pytest.raises(InputError, match="label 0, 1, 2, 3, 4 or 5 in column 2 of line 32"):
        read_labeled(trec, "TREC", "dev")
    assert not (tmp_path / "out").exists()


def test_movies_are_read_with_both_splits_that_are_not_trained_on(tmp_path):
    (tmp_path / "movies" / "docs").mkdir(parents=True)
    for name, label in (("train", "POS"), ("val", "NEG"), ("test", "POS")):
        (tmp_path / "movies" / "docs" / name).write_text("a fine film")
        record = f'{{"annotation_id": "{name}", "classification": "{label}", "evidences": []}}'
        (tmp_path / "movies" / f"{name}.jsonl").write_text(record + "\n")
    dev = read_labeled(tmp_path, "movies", "dev")
    assert (dev.labels, dev.classes, dev.examples[0].text) == ((0, 1), 2, "a fine film")


def test_interval_of_a_difference_is_that_of_the_normal_distribution():
    generator = np.random.default_rng(0)
    first, second = generator.random((40, 500)) < 0.8, generator.random((40, 500)) < 0.7
    low, high = difference_interval(first, second)
    per_example = first.mean(0) - second.mean(0)
    by_seed = np.var(first.mean(1)) / 40 + np.var(second.mean(1)) / 40
    half = 1.96 * np.sqrt(np.var(per_example) / 500 + by_seed)
    assert (low + high) / 2 == pytest.approx(per_example.mean(), abs=0.005)
    assert (high - low) / 2 == pytest.approx(half, rel=0.3)
