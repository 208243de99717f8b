"""A model of 1.6 billion parameters that stays on disk against its bare pass: time, and peak memory. Two minutes."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.harness import last_number_of, report, side_by_side

TOKENS = 512
SHAPE = {
    "vocab_size": 32_000,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
}


def write_model(folder: Path, shape: dict[str, int]) -> int:
    """Write a random Llama, one shard per layer, in float32, without ever holding it in memory; return its parameters."""
    config = LlamaConfig(**shape, architectures=["LlamaForCausalLM"], dtype="float32")
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in LlamaForCausalLM(config).state_dict().items()}
    shards: dict[str, list[str]] = {}
    for name in shapes:
        parts = name.split(".")
        shards.setdefault(f"layer-{parts[2]}" if parts[1] == "layers" else "other", []).append(name)
    generator = torch.Generator().manual_seed(0)
    places = {}
    for shard, names in shards.items():
        file = f"model-{shard}.safetensors"
        save_file({name: _weights(name, shapes[name], generator) for name in names}, folder / file, {"format": "pt"})
        places |= dict.fromkeys(names, file)
    size = sum(shape.numel() for shape in shapes.values())
    index = {"metadata": {"total_size": 4 * size}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config.save_pretrained(folder)
    vocabulary = {f"w{number}": number for number in range(shape["vocab_size"])}
    words = Tokenizer(WordLevel(vocabulary, unk_token="w0"))
    words.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0").save_pretrained(folder)
    return size


def _weights(name: str, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return torch.ones(shape) if "norm" in name else torch.randn(shape, generator=generator).mul_(0.02)


def text(tokens: int) -> str:
    return " ".join(f"w{7919 * number % 31_991 + 1}" for number in range(tokens))


def measure(model: Any, tokens: int) -> float:
    """Effective attention in factored form and contributions of all heads, layer by layer; returns the mass of one key."""
    import identiformer as idf
    from identiformer.equations import contributions

    trace = model.trace(text(tokens))
    idf.effective_attention(trace, matrices=False, spectrum=False)
    received = [contributions(layer.weights, layer.values, layer.projection).mean(1) for layer in trace.stack().layers]
    return float(torch.stack(received)[..., 0].mean())


def bare_pass(model: Any, tokens: int) -> None:
    inputs = model.tokenizer(text(tokens), return_tensors="pt")
    with torch.no_grad():
        model.network.base_model(**inputs, use_cache=False)


def peak_above_torch(folder: Path, tokens: int) -> int:
    """The most memory that loading and measuring held above Python with torch, in bytes.

    It is the high-water mark of what is resident, pages of mapped files included, which the kernel could drop at any time.
    """
    code = f"""
import torch
from pathlib import Path

def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])

before = resident("VmRSS")
import identiformer as idf
from benchmarks.large_model import measure
measure(idf.load({str(folder)!r}, device_map="disk"), {tokens})
print(resident("VmHWM") - before)
"""
    return last_number_of("-c", code)


def run() -> None:
    import identiformer as idf

    with tempfile.TemporaryDirectory(prefix="large-model-") as path:
        folder = Path(os.environ.get("LARGE_MODEL", path))
        if not (folder / "config.json").exists():
            write_model(folder, SHAPE)
        model = idf.load(folder, device_map="disk")
        _ = model.revision  # like loading, once per model
        model.trace(text(4))
        times = side_by_side({"measured": lambda: measure(model, TOKENS), "bare": lambda: bare_pass(model, TOKENS)}, 3)
        detail = f"(bare {times['bare']:.0f} s)"
        what = "1.6 B parameters on disk: extra time of effective attention and contributions of all heads"
        report(what, times["measured"] / times["bare"] - 1, 0.3, True, detail)
        report("the same: peak memory above Python and torch in MB", peak_above_torch(folder, TOKENS) / 1e6, 1200, True)
