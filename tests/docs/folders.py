"""Folders that the code of a page reads, with small models in place of the reader's."""

import peft
import transformers

from tests.models.families import SERVED, word_tokenizer


def write_folders(sharded, adapters):
    """Write a small model in shards, and adapters of it; return the model, in place of a quantized one, and its tokenizer."""
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SERVED["llama"])).eval()
    network.save_pretrained(sharded, max_shard_size="30KB")
    word_tokenizer().save_pretrained(sharded)
    settings = peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM")
    peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(sharded), settings).save_pretrained(adapters)
    return network, word_tokenizer()
