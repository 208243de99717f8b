"""A tiny GLUE whose tasks a tiny model can learn: one word decides the label."""

import numpy as np

from tests.models.families import WORDS

DECIDING = ("w3", "w77")


def write_glue(folder, task="MRPC", train=160, dev=40):
    for split, count, seed in (("train", train, 1), ("dev", dev, 2)):
        generator = np.random.default_rng(seed)
        labels = generator.integers(2, size=count)
        rows = [_row(task, label, _text(generator, label), _text(generator, label)) for label in labels]
        header = ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"] if task == "MRPC" else []
        (folder / task).mkdir(parents=True, exist_ok=True)
        (folder / task / f"{split}.tsv").write_text("\n".join([*header, *rows]) + "\n", encoding="utf-8")
    return folder


def _text(generator, label):
    others = [word for word in WORDS if word not in DECIDING]
    return " ".join(generator.permutation([DECIDING[label], *generator.choice(others, generator.integers(1, 6))]))


def _row(task, label, text, pair):
    return f"{label}\t1\t2\t{text}\t{pair}" if task == "MRPC" else f"src\t{label}\t{'' if label else '*'}\t{text}"
