"""Hidden states on disk: equal to those of the model, complete or absent."""

import shutil

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError, ResultError, UnsupportedModelError
from identiformer.models.hidden_states.recording import hidden_states
from identiformer.models.hidden_states.store import open_states
from identiformer.texts import Example, read_corpus
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words

EXAMPLES = [Example(words(count, start=count), words(3, start=5)) for count in (4, 9, 2, 9, 6)]


def tiny(family):
    return idf.load(build(family, SERVED.get(family) or ENCODER_DECODERS[family]), word_tokenizer())


def test_states_equal_those_of_the_model_one_text_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("identiformer.models.hidden_states.recording.BATCH_TOKENS", 40)
    model = tiny("bert")
    embeddings = model.network.embeddings
    with hidden_states(model, EXAMPLES, tmp_path) as states:
        assert states.layers == 2
        assert states.positional
        assert states.texts[0] == "[CLS]"
        for number, example in enumerate(EXAMPLES):
            inputs = model.tokenizer(example.text, example.pair, return_tensors="pt")
            rows = slice(states.starts[number], states.starts[number + 1])
            np.testing.assert_array_equal(states.ids[rows], inputs["input_ids"][0])
            np.testing.assert_array_equal(states.position[rows], np.arange(inputs["input_ids"].shape[1]))
            assert set(states.example[rows]) == {number}
            with torch.no_grad():
                expected = model.network(**inputs, output_hidden_states=True).hidden_states
                x = (
                    embeddings.word_embeddings(inputs["input_ids"])
                    + embeddings.token_type_embeddings(torch.zeros_like(inputs["input_ids"]))
                    + embeddings.position_embeddings(torch.arange(inputs["input_ids"].shape[1]))
                )
            np.testing.assert_allclose(states.inputs[rows], x[0], atol=1e-6)
            for layer in (1, 2):
                np.testing.assert_allclose(states.layer(layer).values[rows], expected[layer][0], atol=2e-6)
            np.testing.assert_allclose(states.layer(0).values[rows], x[0], atol=1e-6)


@pytest.mark.parametrize("family", sorted({*SERVED, *ENCODER_DECODERS}))
def test_inputs_are_embeddings_before_their_normalization(family, tmp_path):
    model = tiny(family)
    with hidden_states(model, EXAMPLES, None) as states:
        table = model.backbone.get_input_embeddings().weight.detach().numpy()
        added = states.inputs - table[states.ids]
        if family in ("gemma2", "gemma3_text"):  # these scale the embedding
            scale = states.inputs[0] @ table[states.ids[0]] / (table[states.ids[0]] @ table[states.ids[0]])
            added = states.inputs - scale * table[states.ids]
        by_position = {}
        for row, position_and_segment in enumerate(zip(states.position, states.segments, strict=True)):
            np.testing.assert_allclose(added[row], by_position.setdefault(position_and_segment, added[row]), atol=1e-5)
        without_positions = not any(np.abs(vector).max() > 1e-5 for vector in by_position.values())
        known = family in ("bert", "roberta", "albert", "distilbert", "electra", "gpt2", "opt", "bart")
        assert without_positions == (not known)


def test_positions_in_x_are_detected_from_repeated_words():
    examples = [Example("w1 w2 w1 w3"), Example("w4 w4 w5")]
    for family, expected in (("bert", True), ("llama", False)):
        with hidden_states(tiny(family), examples, None) as states:
            assert states.positional is expected


def test_stored_states_are_reused_only_for_the_same_model_and_corpus(tmp_path):
    model = tiny("bert")
    with hidden_states(model, EXAMPLES, tmp_path) as states:
        first = states.folder
    stamp = (first / "hidden.npy").stat().st_mtime_ns
    with hidden_states(model, EXAMPLES, tmp_path) as states:
        assert states.folder == first
    assert (first / "hidden.npy").stat().st_mtime_ns == stamp
    with hidden_states(model, EXAMPLES[:4], tmp_path) as states:
        assert states.folder != first
    with torch.no_grad():
        model.network.embeddings.word_embeddings.weight[5] += 1
    changed = idf.load(model.network, model.tokenizer)
    with hidden_states(changed, EXAMPLES, tmp_path) as states:
        assert states.folder != first


def test_an_interrupted_run_leaves_no_files(tmp_path, monkeypatch):
    model = tiny("bert")
    monkeypatch.setattr("identiformer.models.hidden_states.recording.BATCH_TOKENS", 20)
    original, calls = model.forward, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    model.forward = interrupted
    with pytest.raises(KeyboardInterrupt), hidden_states(model, EXAMPLES, tmp_path):
        pass
    assert not list(tmp_path.iterdir())
    with hidden_states(model, EXAMPLES, tmp_path) as states:
        assert states.examples == 5
    assert [path.name for path in tmp_path.iterdir()] == [states.folder.name]


def test_states_without_a_store_are_temporary():
    with hidden_states(tiny("bert"), EXAMPLES, None) as states:
        folder = states.folder
        assert folder.is_dir()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda first, second, third: (first, second, third[..., :20]), "different widths, 32, 20"),
        (lambda first, second, third: (first, second, third[:, ::2]), "one hidden vector per token and layer"),
        (lambda first, second, third: (first, (second, third)), "one hidden vector per token and layer"),
        (lambda *states: None, "one hidden vector per token and layer"),
    ],
)
def test_hidden_states_other_than_one_vector_per_token_are_rejected(changed, reason):
    model = tiny("bert")

    def on_result(network, arguments, result):
        result.hidden_states = changed(*result.hidden_states)
        return result

    model.network.register_forward_hook(on_result)
    with pytest.raises(UnsupportedModelError, match=reason), hidden_states(model, EXAMPLES, None):
        pass


def test_a_damaged_file_is_rejected(tmp_path):
    with hidden_states(tiny("bert"), EXAMPLES, tmp_path) as states:
        (states.folder / "ids.npy").write_bytes(b"")
    with pytest.raises(ResultError, match="damaged"):
        open_states(states.folder)


DAMAGE = {
    "about.json": [b"", b"[]", b'{"model": 3}', b"[" * 100_000, b"{}"],
    "ids.npy": [b"", b"cos\nsystem\n(S'true'\ntR.", np.zeros(3, int), np.array(["a"] * 3), np.array([None])],
    "starts.npy": [np.array([0]), np.array([5, 0]), np.zeros((2, 2), int)],
    "hidden.npy": [np.zeros((2, 3, 4), np.float32), np.zeros(7), np.array([object()])],
    "texts.npy": [np.array(["a"]), np.array([b"a"] * 2)],
}


def test_inconsistent_states_are_rejected_in_one_sentence(tmp_path):
    model = tiny("bert")
    with hidden_states(model, EXAMPLES, tmp_path) as states:
        folder = states.folder
    for name, contents in DAMAGE.items():
        kept = (folder / name).read_bytes()
        for content in contents:
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                np.save(folder / name, content, allow_pickle=True)
            with (
                pytest.raises(ResultError, match=r"damaged|expected the hidden states of this model"),
                hidden_states(model, EXAMPLES, tmp_path),
            ):
                pass
        (folder / name).write_bytes(kept)
    with hidden_states(model, EXAMPLES, tmp_path) as states:
        assert states.examples == len(EXAMPLES)


def test_states_of_another_corpus_are_rejected(tmp_path):
    model = tiny("bert")
    with hidden_states(model, EXAMPLES, tmp_path) as states, hidden_states(model, EXAMPLES[:2], tmp_path) as others:
        shutil.rmtree(others.folder)
        shutil.copytree(states.folder, others.folder)
    with pytest.raises(ResultError, match="got others; delete"), hidden_states(model, EXAMPLES[:2], tmp_path):
        pass


def test_bad_input(tmp_path):
    model = tiny("bert")
    with pytest.raises(InputError, match="pairs or single texts"), hidden_states(model, [Example("a"), Example("a", "b")], None):
        pass
    with pytest.raises(InputError, match="at most 64 tokens"), hidden_states(model, [Example(words(80))], None):
        pass
    with hidden_states(model, [Example(words(80))], None, max_length=100) as states:
        assert states.lengths.tolist() == [64]
    with hidden_states(model, [Example(words(80))], None, max_length=10) as states:
        assert states.source["cut"] == "1"
        assert states.lengths.tolist() == [10]
        with pytest.raises(InputError, match="layer from 0"):
            states.layer(3)
    with torch.no_grad():
        model.network.encoder.layer[1].output.LayerNorm.bias[0] = torch.inf
    with pytest.raises(InputError, match="finite hidden states"), hidden_states(model, EXAMPLES, tmp_path):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.shared
@pytest.mark.parametrize(("file", "first", "tokens"), [("MRPC/dev.tsv", None, 21_723), ("MNLI/dev_matched.tsv", 500, 19_839)])
def test_token_counts_match_the_paper(shared, file, first, tokens):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(shared / "models" / "gte-small")
    examples = read_corpus(shared / "data" / file, first)
    cut = {"truncation": True, "max_length": 128}
    lengths = [len(tokenizer(example.text, example.pair, **cut)["input_ids"]) for example in examples]
    assert sum(lengths) == tokens
    if first is None:
        assert (len(lengths), min(lengths), max(lengths)) == (408, 26, 86)
