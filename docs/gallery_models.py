"""Two small models, trained in a minute, for kinds of attention of which no small checkpoint is in a Python package."""

import itertools

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast, ViTConfig, ViTForImageClassification

import identiformer as idf

COLORS = ("red", "blue", "green", "black", "white", "gold", "pink", "gray", "brown")
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
LENGTHS = range(3, 9)
SIDE, PATCH = 16, 4


def word_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token per color."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *COLORS))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def train_reverser(steps: int = 1200, seed: int = 0) -> idf.Model:
    """A BART of one layer and two heads that writes the words of its input in reverse."""
    torch.manual_seed(seed)
    tokenizer = word_tokenizer()
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in
             (("layers", 1), ("attention_heads", 2), ("ffn_dim", 128))}  # fmt: skip
    config = BartConfig(
        vocab_size=len(tokenizer), d_model=64, max_position_embeddings=32, dropout=0.0, **sizes,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=2,
    )  # fmt: skip
    network = BartForConditionalGeneration(config)
    network.generation_config.forced_eos_token_id = None

    def batches():
        while True:
            length = LENGTHS[int(torch.randint(len(LENGTHS), ()))]
            words = torch.randint(len(SPECIAL), len(tokenizer), (64, length))
            ends = torch.full((64, 1), 1), torch.full((64, 1), 2)
            written = torch.cat((ends[0], words.flip(1), ends[1]), 1)
            yield {
                "input_ids": torch.cat((ends[0], words, ends[1]), 1),
                "decoder_input_ids": written[:, :-1],
                "labels": written[:, 1:].contiguous(),
            }

    _train(network, batches(), steps)
    return idf.load(network, tokenizer)


def bright_square(quarter: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """A noisy picture with a bright square of the size of a patch in one of its quarters."""
    generator = generator or torch.Generator().manual_seed(7)
    picture = 0.1 * torch.randn(1, SIDE, SIDE, generator=generator)
    half = SIDE // 2
    row, column = (int(torch.randint(half // PATCH, (), generator=generator)) * PATCH for _ in range(2))
    top, left = quarter // 2 * half + row, quarter % 2 * half + column
    picture[:, top : top + PATCH, left : left + PATCH] += 1
    return picture


def train_vision(steps: int = 400, seed: int = 0) -> idf.Model:
    """A ViT of two layers that says in which quarter of a picture the bright square is."""
    torch.manual_seed(seed)
    config = ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, image_size=SIDE, patch_size=PATCH,
        num_channels=1, num_labels=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    network = ViTForImageClassification(config)
    generator = torch.Generator().manual_seed(seed)

    def batches():
        while True:
            quarters = torch.randint(4, (32,), generator=generator)
            yield {"pixel_values": torch.stack([bright_square(int(each), generator) for each in quarters]), "labels": quarters}

    _train(network, batches(), steps)
    return idf.load(network)


def _train(network, batches, steps: int) -> None:
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for batch in itertools.islice(batches, steps):
        loss = network(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    network.eval()
