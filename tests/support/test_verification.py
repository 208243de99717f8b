"""Checks pass on supported architectures, give a reason for unsupported ones, and notice wrong records."""

import pytest

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.support.checks import CHECKS
from identiformer.support.record import RECORD
from identiformer.support.tiny_models import architectures, tiny_config
from identiformer.support.verification import REASONS_FROM_CODE, Support, known_support, reason_of, verify_models
from tests.models.families import each

SUPPORTED = ["bert", "llama", "t5", "gpt_oss", "deberta-v2", "jamba", "bloom", "xlnet", "zamba"]


@pytest.mark.parametrize("architecture", each(SUPPORTED, {"gpt_oss", "jamba", "bloom"}))
def test_supported_architectures_pass_every_check(architecture):
    (support,) = verify_models([architecture])
    assert support.reasons == dict.fromkeys(CHECKS, "")
    assert support.verified
    assert support.compared


def test_images_and_audio_are_traced():
    vit, whisper, clip = verify_models(["vit", "whisper", "clip"])
    assert vit.verified
    assert vit.reads == "image"
    assert not vit.reasons["re-run"]
    assert "reads image input" in vit.reasons["identifiability"]
    assert whisper.kinds == {"encoder": 2, "decoder": 2, "cross": 2}
    assert clip.kinds == {"text_model self": 2, "vision_model self": 2}


def test_unsupported_architectures_have_a_reason():
    mamba, diffllama, videomae = verify_models(["mamba", "diffllama", "videomae"])
    assert "no softmax attention" in mamba.why_not
    assert not mamba.reasons["identifiability"], "hidden states do not need attention"
    assert "2 times per layer" in diffllama.why_not
    assert "reads videos" in videomae.why_not
    blocks, several, unbuilt, codes = verify_models(["granite_speech5_encoder", "bark", "musicgen", "dia"])
    assert "splits 1 input into" in blocks.reasons["trace"]
    assert "several models" in several.why_not
    assert unbuilt.why_not.startswith("transformers cannot build")
    assert codes.reasons["trace"] == REASONS_FROM_CODE["dia"]
    sides, halved = verify_models(["pegasus_x", "sew"])
    assert "one hidden vector per token and layer" in sides.reasons["identifiability"]
    assert "pools its 12 positions to 6" in halved.reasons["attribution"]


def test_a_wide_tiny_model_has_only_fewer_layers():
    wide, narrow = tiny_config("bert", narrow=False), tiny_config("bert")
    assert (wide.num_hidden_layers, wide.hidden_size, wide.vocab_size) == (2, 768, 30522)
    assert (narrow.num_hidden_layers, narrow.hidden_size) == (2, 32)


def test_wrong_eager_attention_is_noticed(monkeypatch):
    from identiformer.models.attention import interface as capture

    right = capture._attend_with_weights

    def wrong(module, query, key, value, attention_mask, **options):
        return right(module, query, key * 1.1, value, attention_mask, **options)

    monkeypatch.setitem(capture.AttentionInterface._global_mapping, capture.WEIGHTS, wrong)
    (actual,) = verify_models(["bert"])
    assert "with eager attention" in actual.reasons["trace"]
    assert not actual.verified


@pytest.mark.parametrize(
    ("what", "architecture", "reason"),
    [("weights", "bert", "differ from the model's own by"), ("values", "bloom", "A·V of self layer 1 differs")],
)
def test_a_wrong_record_is_noticed(what, architecture, reason, monkeypatch):
    from identiformer.models import tracing

    right = tracing.layer_of

    def wrong(call, *others):
        layer = right(call, *others)
        getattr(layer, what).mul_(1.1)
        return layer

    monkeypatch.setattr(tracing, "layer_of", wrong)
    (actual,) = verify_models([architecture])
    assert reason in actual.reasons["trace"]


@pytest.mark.parametrize("architecture", each(["zamba", "gemma4_text", "jamba"], {"jamba"}))
def test_derivatives_of_the_wrong_input_are_noticed(architecture, monkeypatch):
    """Take the input of the first block that attends, which is not the first block or not all that depends on x."""
    from identiformer.models.derivatives import input_site

    monkeypatch.setattr(input_site, "first_block", input_site.block_of)
    monkeypatch.setattr(input_site, "_bypasses_site", lambda *_: False)
    (actual,) = verify_models([architecture])
    assert "differ from finite differences" in actual.reasons["attribution"]


def test_a_reason_that_capabilities_share_is_shown_once():
    reasons = dict.fromkeys(CHECKS, "") | {"re-run": "gone.", "identifiability": "gone."}
    assert Support("one", {}, "text", True, reasons).why_not == "Re-run, identifiability: gone."
    assert Support("one", {}, "", False, dict.fromkeys(CHECKS, "gone.")).why_not == "gone."


def test_an_unknown_architecture_is_rejected():
    with pytest.raises(InputError, match="got 'bertt'"):
        verify_models(["bertt"])


def test_the_record_contains_every_architecture():
    assert [support.architecture for support in known_support()] == architectures()
    recorded = {support.architecture: support.reasons["trace"] for support in known_support()}
    given = {architecture: reason for architecture, reason in REASONS_FROM_CODE.items() if architecture in recorded}
    assert all(recorded[architecture] == reason for architecture, reason in given.items()), (
        "a model that runs needs no reason from its code"
    )


def test_the_record_has_no_paths_of_a_machine():
    error = ImportError("no Model in <module 'm' from '/some/where/lib/site-packages/m/__init__.py'>")
    assert reason_of(error).endswith("no Model in <module 'm' from 'site-packages/m/__init__.py'>")
    assert "/site-packages" not in RECORD.read_text(encoding="utf-8")


def caused(cause):
    error = UnsupportedModelError("BrosModel cannot be run on input_ids alone: …")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnsupportedModelError("the x family has none."), "the x family has none."),
        (ImportError("\nTimm requires the timm library but\nit"), "needs a package that is not installed here: timm."),
        (
            caused(TypeError("V.forward() missing 2 required positional arguments: 'hidden_states' and 'grid_thw'")),
            "needs more input than one text, image or audio clip: it also takes 'hidden_states' and 'grid_thw'.",
        ),
        (
            caused(AttributeError("'NoneType' object has no attribute 'shape'")),
            "needs more input than one text, image or audio clip: 'NoneType' object has no attribute 'shape'",
        ),
        (
            caused(ValueError("You have to specify bbox")),
            "needs more input than one text, image or audio clip: You have to specify bbox",
        ),
        (
            RuntimeError("mat1 and mat2"),
            "undetermined, the tiny model fails within transformers or torch: mat1 and mat2",
        ),
    ],
)
def test_reasons_distinguish_rejection_from_missing_input(error, reason):
    assert reason_of(error) == reason
