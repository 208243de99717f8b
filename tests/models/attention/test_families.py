"""Families whose attention does not pass through the interface; the laws of recording are in tests/laws."""

import pytest
import torch

from identiformer.errors import UnsupportedModelError
from identiformer.measures import token_attribution
from identiformer.models import load
from tests.models.every_family import model_of
from tests.models.families import OUTSIDE_THE_INTERFACE, build, each, word_tokenizer, words

NOT_ATTRIBUTED = ("longformer",)  # which pads its positions to whole windows


@pytest.mark.parametrize("family", each(sorted({*OUTSIDE_THE_INTERFACE} - {*NOT_ATTRIBUTED})))
def test_contributions_of_the_family_sum_to_one(family):
    result = token_attribution(model_of(family), words(4), exact=True)
    torch.testing.assert_close(
        torch.tensor(result.contribution.sum("source").values).float(), torch.ones(2, 6), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("family", NOT_ATTRIBUTED)
def test_a_family_that_cannot_be_attributed_is_rejected_with_the_reason(family):
    with pytest.raises(UnsupportedModelError, match=f"{family}.*one input vector per position"):
        token_attribution(model_of(family), words(4), exact=True)


def test_a_block_sparse_big_bird_is_rejected_and_keeps_its_blocks():
    model = load(build("big_bird", OUTSIDE_THE_INTERFACE["big_bird"]), word_tokenizer())
    assert model.trace(words(20)).layer(1).weights.shape == (4, 22, 22)
    with pytest.raises(UnsupportedModelError, match=r"28 tokens.*got 42.*blocks"):
        model.trace(words(40))
    assert model.network.attention_type == "block_sparse"
