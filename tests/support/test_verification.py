"""The checks of an architecture pass where it is served, say why where it is not, and notice what is wrong."""

import pytest

from identiformer.errors import InputError, UnsupportedModelError
from identiformer.support.reasons import LOOKED_UP, reason_of
from identiformer.support.tiny_models import architectures, tiny_config
from identiformer.support.verification import CAPABILITIES, RECORD, Support, known_support, verify_models


@pytest.mark.parametrize("architecture", ["bert", "llama", "t5", "gpt_oss", "deberta-v2", "jamba", "bloom", "xlnet", "zamba"])
def test_what_is_served_passes_every_check(architecture):
    (found,) = verify_models([architecture])
    assert found.reasons == dict.fromkeys(CAPABILITIES, "")
    assert found.verified
    assert found.compared


def test_images_and_sounds_are_traced():
    vit, whisper, clip = verify_models(["vit", "whisper", "clip"])
    assert vit.verified
    assert vit.reads == "image"
    assert not vit.reasons["re-run"]
    assert "in texts" in vit.reasons["identifiability"]
    assert whisper.kinds == {"encoder": 2, "decoder": 2, "cross": 2}
    assert clip.kinds == {"text_model self": 2, "vision_model self": 2}


def test_what_is_not_served_says_why():
    mamba, diffllama, videomae = verify_models(["mamba", "diffllama", "videomae"])
    assert "no softmax attention" in mamba.why_not
    assert not mamba.reasons["identifiability"], "hidden states are there all the same"
    assert "2 times in one layer" in diffllama.why_not
    assert "reads videos" in videomae.why_not
    blocks, several, unbuilt, codes = verify_models(["granite_speech5_encoder", "bark", "musicgen", "dia"])
    assert "pieces where 1 is given" in blocks.reasons["trace"]
    assert "several models" in several.why_not
    assert unbuilt.why_not.startswith("transformers does not build")
    assert codes.reasons["trace"] == LOOKED_UP["dia"]
    sides, halved = verify_models(["pegasus_x", "sew"])
    assert "one hidden vector per token and layer" in sides.reasons["identifiability"]
    assert "pools its 12 positions to 6" in halved.reasons["attribution"]


def test_where_sizes_depend_on_each_other_only_layers_are_made_few():
    wide, narrow = tiny_config("bert", narrow=False), tiny_config("bert")
    assert (wide.num_hidden_layers, wide.hidden_size, wide.vocab_size) == (2, 768, 30522)
    assert (narrow.num_hidden_layers, narrow.hidden_size) == (2, 32)


def test_attention_that_is_computed_otherwise_is_noticed(monkeypatch):
    from identiformer.models.attention import interface as capture

    honest = capture._attend_with_weights

    def dishonest(module, query, key, value, attention_mask, **options):
        return honest(module, query, key * 1.1, value, attention_mask, **options)

    monkeypatch.setitem(capture.AttentionInterface._global_mapping, capture.WEIGHTS, dishonest)
    (found,) = verify_models(["bert"])
    assert "with eager attention" in found.reasons["trace"]
    assert not found.verified


@pytest.mark.parametrize(
    ("what", "architecture", "reason"),
    [("weights", "bert", "differ from the model's own by"), ("values", "bloom", "A·V of self layer 1 differs")],
)
def test_a_record_that_is_not_the_models_own_is_noticed(what, architecture, reason, monkeypatch):
    from identiformer.models import model

    honest = model.layer_of

    def dishonest(call, *others):
        layer = honest(call, *others)
        getattr(layer, what).mul_(1.1)
        return layer

    monkeypatch.setattr(model, "layer_of", dishonest)
    (found,) = verify_models([architecture])
    assert reason in found.reasons["trace"]


@pytest.mark.parametrize("architecture", ["zamba", "gemma4_text", "jamba"])
def test_derivatives_of_the_wrong_input_are_noticed(architecture, monkeypatch):
    """Take the input of the first block that attends, which is not the first block or not all that depends on x."""
    from identiformer.models import model
    from identiformer.models.derivatives import input_site

    monkeypatch.setattr(model, "first_block", input_site.block_of)
    monkeypatch.setattr(input_site, "_bypasses_site", lambda *_: False)
    (found,) = verify_models([architecture])
    assert "differ from finite differences" in found.reasons["attribution"]


def test_reasons_that_several_capabilities_share_are_told_once():
    reasons = dict.fromkeys(CAPABILITIES, "") | {"re-run": "gone.", "identifiability": "gone."}
    assert Support("one", {}, "text", True, reasons).why_not == "Re-run, identifiability: gone."
    assert Support("one", {}, "", False, dict.fromkeys(CAPABILITIES, "gone.")).why_not == "gone."


def test_an_unknown_architecture_is_refused():
    with pytest.raises(InputError, match="got 'bertt'"):
        verify_models(["bertt"])


def test_the_record_tells_of_every_architecture():
    assert [each.architecture for each in known_support()] == architectures()
    told = {each.architecture: each.reasons["trace"] for each in known_support()}
    assert all(told[architecture] == reason for architecture, reason in LOOKED_UP.items()), "one that runs needs no looking up"


def test_no_place_of_a_machine_is_on_record():
    error = ImportError("no Model in <module 'm' from '/some/where/lib/site-packages/m/__init__.py'>")
    assert reason_of(error).endswith("no Model in <module 'm' from 'site-packages/m/__init__.py'>")
    assert "/site-packages" not in RECORD.read_text(encoding="utf-8")


def caused(cause):
    error = UnsupportedModelError("BrosModel cannot be run on input_ids alone: …")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UnsupportedModelError("the x family has none."), "the x family has none."),
        (ImportError("\nTimm requires the timm library but\nit"), "needs a package that is not installed here: timm."),
        (
            caused(TypeError("V.forward() missing 2 required positional arguments: 'hidden_states' and 'grid_thw'")),
            "reads more than one text, image or sound: it is called with 'hidden_states' and 'grid_thw' as well.",
        ),
        (
            caused(AttributeError("'NoneType' object has no attribute 'shape'")),
            "reads more than one text, image or sound: 'NoneType' object has no attribute 'shape'",
        ),
        (caused(ValueError("You have to specify bbox")), "reads more than one text, image or sound: You have to specify bbox"),
        (
            RuntimeError("mat1 and mat2"),
            "not found out, the small model that was tried fails within transformers or torch: mat1 and mat2",
        ),
    ],
)
def test_reasons_say_whether_they_are_a_judgment(error, told):
    assert reason_of(error) == told
