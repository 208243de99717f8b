"""What a user hands to identiformer, how each case damages it, and the command that reads it."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz import mutators as m
from tests.models.families import SERVED, build, word_tokenizer
from tests.runs.tiny import save_tiny, texts, write_tsv

TEXT = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12"
Answer = Callable[[str], object]


@dataclass(frozen=True)
class Damage:
    """What was done to the input, and whether another answer than that of the undamaged input could be right."""

    what: str
    may_differ: bool


@dataclass(frozen=True)
class Surface:
    """One kind of input: how it is made, damaged and read; places are relative to the folder of a case."""

    name: str
    make: Callable[[Path], None]
    damage: Callable[[random.Random, Path], Damage]
    commands: Callable[[Path, Path], list[list[str]]]
    """From the folders of the input and of the output to the words of commands; what the last one prints is the answer."""
    answer: Answer = field(default=lambda printed: _findings(printed))
    """What of standard output has to stay the same."""
    writes_input: bool = False
    """Whether the command writes into its input, as one that resumes a run does."""
    right: Callable[[Path, str], bool] = field(default=lambda _, __: True)
    """Whether an answer to an input as damaged as this is right, as other means than ours tell."""


def _findings(printed):
    """The findings of a command without where they come from: each case has a folder, and a hash may cover unused weights."""
    actual = json.loads(printed)
    return {name: value for name, value in actual.items() if name not in ("model", "provenance")}


def _inspect(folder, _):
    return [["inspect", TEXT, "--model", str(folder), "--json"]]


def _make_sharded(folder):
    network = build("bert", SERVED["bert"])
    network.save_pretrained(folder, max_shard_size="30KB")
    word_tokenizer().save_pretrained(folder)


def _make_llama(folder):
    build("llama", SERVED["llama"]).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)


def _damage_config(chance, folder):
    path = folder / "config.json"
    if chance.random() < 0.75:
        return Damage(m.damage_json(chance, path), may_differ=True)  # another configuration is another model
    return Damage(m.damage_file(chance, path), may_differ=True)


def _damage_weights(chance, folder):
    path = folder / "model.safetensors"
    kind = chance.random()
    if kind < 0.65:
        return Damage(m.damage_safetensors(chance, path), may_differ=False)
    if kind < 0.8:
        data = 8 + int.from_bytes(path.read_bytes()[:8], "little")
        return Damage(f"weights: {m.flip(chance, path, first=data)}", may_differ=True)  # other weights, another model
    # A flip of bytes may hit the weights, of which any value is legal.
    what = m.damage_file(chance, path)
    return Damage(what, may_differ="flipped" in what or "inserted" in what)


def _damage_shards(chance, folder):
    shards = [path.name for path in sorted(folder.glob("*.safetensors"))]
    index = folder / "model.safetensors.index.json"
    kind = chance.randrange(5)
    if kind == 0:
        return Damage(m.swap_files(chance, folder, shards), may_differ=False)
    if kind == 1:
        return Damage(m.replace_by_copy(chance, folder, shards), may_differ=False)
    if kind == 2:
        return Damage(m.damage_safetensors(chance, folder / chance.choice(shards)), may_differ=False)
    if kind == 3:
        return Damage(m.damage_json(chance, index), may_differ=False)
    return Damage(m.damage_file(chance, index), may_differ=False)


def _damage_tokenizer(chance, folder):
    path = folder / chance.choice(("tokenizer.json", "tokenizer.json", "tokenizer_config.json"))
    if chance.random() < 0.6:
        return Damage(m.damage_json(chance, path), may_differ=True)  # another vocabulary is another tokenizer
    what = m.damage_file(chance, path)
    return Damage(
        what, may_differ=not any(word in what for word in ("cut", "emptied", "zeroed", "replaced", "removed", "nested"))
    )


def _make_gguf(folder):
    from tests.models.gguf_file import write_gguf

    folder.mkdir(parents=True, exist_ok=True)
    write_gguf(folder / "tiny.gguf")


def _damage_gguf(chance, folder):
    path = folder / "tiny.gguf"
    header = path.read_bytes().find(b"token_embd.weight")
    if chance.random() < 0.6:
        last = chance.choice((32, header, header + 1200))
        return Damage(f"header: {m.flip(chance, path, last=last)}", may_differ=True)
    what = m.damage_file(chance, path)
    return Damage(what, may_differ=any(word in what for word in ("flipped", "inserted", "twice")))


FORMATS = ("tsv", "csv", "jsonl", "txt")


def _make_corpora(folder):
    folder.mkdir(parents=True, exist_ok=True)
    examples = texts(8)
    write_tsv(folder / "dev.tsv", examples)
    lines = [f'"{example.text}","{example.pair}"' for example in examples]
    (folder / "dev.csv").write_text("sentence1,sentence2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    records = [json.dumps({"sentence1": example.text, "sentence2": example.pair}) for example in examples]
    (folder / "dev.jsonl").write_text("\n".join(records) + "\n", encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(example.text for example in examples) + "\n", encoding="utf-8")


def _damage_corpus(chance, folder):
    kept = folder / f"dev.{chance.choice(FORMATS)}"
    for path in m.files_in(folder):
        if path != kept:
            path.unlink()
    if kept.suffix == ".jsonl" and chance.random() < 0.6:
        lines = kept.read_text(encoding="utf-8").splitlines()
        value = chance.choice(("9" * 5000, m.DEEP, '"\\ud800"', "NaN", "1e999", "[]", "{}", "null", '""', '"\\u0000"'))
        lines[chance.randrange(len(lines))] = f'{{"sentence1": {value}, "sentence2": "w1"}}'
        kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return Damage(f"{kept.name}: a line with {value[:20]}", may_differ=True)
    return Damage(m.damage_file(chance, kept), may_differ=True)


def _only_file(folder):
    """What is left of the corpus, whatever it has become."""
    return next((path for path in sorted(folder.iterdir())), folder / "dev.tsv")


def shared(folder):
    """Where a model and a corpus are that no case damages."""
    return next(above / "shared" for above in folder.parents if (above / "shared").is_dir())


def make_shared(folder):
    save_tiny(folder / "model")
    write_tsv(folder / "corpus.tsv", texts(40))


def _measure(folder, out):
    return [["run", str(_only_file(folder)), "--model", str(shared(folder) / "model"), "--measures", "texts", "--out", str(out)]]


def _counts_all(folder, printed):
    """Only a corpus in UTF-8 may be read, and every line of it that is not empty is an example, but for the header."""
    path = _only_file(folder)
    if not path.is_file() or path.stat().st_size > 2**20:
        return False
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return False
    examples = sum(bool(line.strip()) for line in lines) - (path.suffix in (".tsv", ".csv"))
    quoted = path.suffix == ".csv"  # a quoted cell may hold the end of a line
    return quoted or f"\n{examples} examples" in printed


def _make_run(folder):
    from identiformer.runs import run

    model = shared(folder) / "model"
    run(shared(folder) / "corpus.tsv", model, ["texts", "attention_identifiability"], out=folder, progress="none")


def _make_unfinished(folder):
    """A run that was killed when all its shards were there, and none of its results."""
    _make_run(folder)
    for path in folder.iterdir():
        if path.name not in ("settings.json", "shards"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _damage_run(chance, folder):
    paths = m.files_in(folder)
    # Most of a run's files are the chunks of its results: take those with the others' share.
    chunks = [path for path in paths if "results.zarr" in path.parts]
    path = chance.choice(chance.choice(([one for one in paths if one not in chunks and one.name != "lock"], chunks)))
    if path.suffix == ".json" and chance.random() < 0.6:
        return Damage(f"{path.relative_to(folder)}: {m.damage_json(chance, path)}", may_differ=False)
    shards = sorted(one.name for one in folder.glob("shards/*"))
    if path.parent.name == "shards" and chance.random() < 0.5:
        return Damage(m.replace_by_copy(chance, folder / "shards", shards), may_differ=False)
    return Damage(f"{path.relative_to(folder)}: {m.damage_file(chance, path)}", may_differ=False)


def _results(folder, _):
    return [["results", str(folder), "--json"]]


def _run_results(printed):
    return json.loads(printed)["results"]


def _resume(folder, _):
    corpus, model = str(shared(folder) / "corpus.tsv"), str(shared(folder) / "model")
    options = ["--measures", "texts,attention_identifiability", "--out", str(folder), "--resume", "--json"]
    return [["run", corpus, "--model", model, *options], *_results(folder, _)]


def _damage_unfinished(chance, folder):
    paths = [*folder.glob("shards/*"), folder / "settings.json", *folder.glob("shards/*")]
    path = chance.choice(sorted(paths))
    if path.suffix == ".json" and chance.random() < 0.6:
        return Damage(m.damage_json(chance, path), may_differ=False)
    if path.suffix == ".state" and chance.random() < 0.4:
        return Damage(m.replace_by_copy(chance, folder / "shards", sorted(one.name for one in folder.glob("shards/*"))), False)
    return Damage(m.damage_file(chance, path), may_differ=False)


OPTIONS = {
    "inspect": ("--layer", "--head", "--dtype", "--device", "--pair"),
    "attribute": ("--token", "--directions", "--seed", "--norm", "--input", "--device", "--pair"),
}


def _damage_words(chance, folder):
    """Texts and options that nobody would type."""
    letters = [
        "w1",
        "é",
        "日本",
        "\udcff",
        "\ud800",
        "\x00",
        "\x1b[31m",
        "\u202e",
        "🤖",
        "a\u0300" * 40,
        " ",
        "\n",
        "-",
        "w2 " * 40,
    ]
    text = "".join(chance.choice(letters) for _ in range(chance.randrange(6)))
    command = chance.choice(list(OPTIONS))
    words = [command, "--model", str(folder)]
    for option in chance.sample(OPTIONS[command], chance.randrange(1, 3)):
        value = chance.choice(
            ("0", "1", "-1", str(m.HUGE), "nan", "", "meta", "float8_e4m3fn", "float64", "\udcff", "a" * 300, text)
        )
        words += [f"{option}={value}"]
    (folder / "words.json").write_text(json.dumps([*words, "--json", "--", text]), encoding="utf-8")
    return Damage(ascii(words[0:1] + words[3:] + [text])[:200], may_differ=True)


def _words(folder, _):
    path = folder / "words.json"
    return [json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else _inspect(folder, _)


COMMANDS = (
    Surface("configuration", save_tiny, _damage_config, _inspect),
    Surface("weights", save_tiny, _damage_weights, _inspect),
    Surface("weights of a decoder", _make_llama, _damage_weights, _inspect),
    Surface("shards of weights", _make_sharded, _damage_shards, _inspect),
    Surface("tokenizer", save_tiny, _damage_tokenizer, _inspect),
    Surface("gguf", _make_gguf, _damage_gguf, lambda folder, _: _inspect(folder / "tiny.gguf", _)),
    Surface("corpus", _make_corpora, _damage_corpus, _measure, answer=lambda printed: None, right=_counts_all),
    Surface("finished run", _make_run, _damage_run, _results, answer=_run_results),
    Surface("unfinished run", _make_unfinished, _damage_unfinished, _resume, answer=_run_results, writes_input=True),
    Surface("words", save_tiny, _damage_words, _words),
)
