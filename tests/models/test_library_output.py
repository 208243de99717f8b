"""What libraries raise, as one sentence that says what to do."""

import pytest
import torch
import transformers

from identiformer.errors import ModelError
from identiformer.models.library_output import model_errors
from tests.models.families import SERVED


@pytest.mark.parametrize(
    ("settings", "method"), [({"dola_layers": "high"}, "Dola"), ({"penalty_alpha": 0.6, "top_k": 4}, "Contrastive Search")]
)
def test_a_decoding_method_of_the_hub_is_named_without_advice_to_run_code(settings, method):
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SERVED["llama"]))
    config = transformers.GenerationConfig(max_new_tokens=2, **settings)
    with (
        pytest.raises(
            ModelError, match=rf"cannot write: its generation_config asks for {method}.*; remove that setting\."
        ) as caught,
        model_errors("it cannot write"),
    ):
        network.generate(torch.tensor([[3, 4]]), generation_config=config)
    assert "allow_code" not in str(caught.value)
