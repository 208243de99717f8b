"""A tiny Llama in a GGUF file."""

import gguf
import numpy as np

WIDTH, FORWARD, HEADS, TOKENS = 32, 48, 4, 260


def write_gguf(path, layers=2, leave_out=(), reshape=(), **numbers):
    """Write a model with random weights, some left out or transposed, and with other numbers in its header."""
    chance = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    sizes = {"block_count": layers, "context_length": 64, "embedding_length": WIDTH, "feed_forward_length": FORWARD}
    sizes |= {"attention.head_count": HEADS, "attention.head_count_kv": HEADS, "vocab_size": TOKENS, **numbers}
    for key, number in sizes.items():
        writer.add_uint32(f"llama.{key}", number)
    writer.add_layer_norm_rms_eps(1e-5)
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    tokens = ["<unk>", "<s>", "</s>", "Ġ", *letters, *(f"Ġ{letter}" for letter in letters)]
    tokens += [f"<{number}>" for number in range(TOKENS - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges([f"Ġ {letter}" for letter in letters])
    shapes = {"token_embd.weight": (TOKENS, WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(layers):
        block = f"blk.{layer}"
        shapes |= {f"{block}.{name}_norm.weight": (WIDTH,) for name in ("attn", "ffn")}
        shapes |= {f"{block}.attn_{name}.weight": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
        shapes |= {f"{block}.ffn_{name}.weight": (FORWARD, WIDTH) for name in ("gate", "up")}
        shapes[f"{block}.ffn_down.weight"] = (WIDTH, FORWARD)
    for name, shape in shapes.items():
        if name not in leave_out:
            tensor = 0.1 * chance.standard_normal(shape, dtype=np.float32)
            writer.add_tensor(name, np.ascontiguousarray(tensor.T) if name in reshape else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
