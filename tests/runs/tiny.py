"""A tiny model in a folder, texts for it, and the content of runs for comparison."""

import numpy as np

from identiformer.texts import Example
from tests.models.families import SERVED, WORDS, build, word_tokenizer

ALL = ("texts", "effective_attention", "attention_identifiability", "token_attribution", "ambiguity")
QUICK = ("texts", "effective_attention", "attention_identifiability")


def save_tiny(path):
    network, tokenizer = build("bert", SERVED["bert"]), word_tokenizer()
    network.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def texts(count, longest=14):
    """Pairs of random words, of many lengths; the same in every call."""
    generator = np.random.default_rng(7)

    def some(most):
        return " ".join(generator.choice(WORDS, generator.integers(1, most)))

    return [Example(some(longest), some(longest // 2)) for _ in range(count)]


def write_tsv(path, examples):
    lines = [f"{example.text}\t{example.pair}" for example in examples]
    path.write_text("sentence1\tsentence2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def bits(run):
    """Every number of every result, as bytes."""
    return {
        (measure, str(name)): (str(variable.dtype), variable.shape, variable.values.tobytes())
        for measure, result in run.results.items()
        for name, variable in result.variables.items()
        if variable.dtype.kind in "iufb"
    } | {(measure, "attributes"): sorted(result.attrs.items()) for measure, result in run.results.items()}


def content(folder):
    """Every file of a folder, as bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
