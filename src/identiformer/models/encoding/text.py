"""Encode texts as the tensors that a model takes, and describe their tokens."""

import copy
import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import InputError, ModelWarning, TextTooLongError
from identiformer.models.library_output import model_errors
from identiformer.texts.example import require_unicode
from identiformer.tokens import Tokens

_TOKENIZING = Lock()

LONGEST_WORD = 100
"""Characters of the longest word that WordPiece splits, unless its file says otherwise; no language has words as long."""

NOT_UNKNOWN = ("bos", "eos", "sep", "cls", "pad", "mask")
"""Roles of special tokens. A tokenizer that gives its unknown token one of them, as GPT-2's does, knows all tokens."""


@dataclass(frozen=True)
class Batch:
    """Encoded texts: inputs padded on the right, and the tokens of each text without padding."""

    inputs: dict[str, Tensor]
    encoder: list[Tokens]
    decoder: list[Tokens] | None
    texts: list[str]
    pairs: list[str] | None
    decoding: str | None = None
    """The settings, as JSON, with which a model wrote the tokens, which may not be what the tokenizer makes of their text."""

    @property
    def examples(self) -> int:
        """The number of texts."""
        return len(self.texts)

    @property
    def longest(self) -> int:
        """The number of tokens of the longest text."""
        return max(map(len, self.encoder + (self.decoder or [])))

    def tokens(self, kind: str, example: int) -> tuple[Tokens, Tokens]:
        """The query tokens and the key tokens of one attention type."""
        encoder = self.encoder[example]
        decoder = self.decoder[example] if self.decoder else encoder
        return {"cross": (decoder, encoder), "decoder": (decoder, decoder)}.get(kind, (encoder, encoder))

    def lengths(self, kind: str, example: int) -> tuple[int, int]:
        """The numbers of queries and keys of one attention type, without padding."""
        queries, keys = self.tokens(kind, example)
        return len(queries), len(keys)

    def source(self, example: int) -> dict[str, str]:
        """The texts of one example, and their hash."""
        texts = {"text": self.texts[example]} | ({"pair": self.pairs[example]} if self.pairs else {})
        digest = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()
        source = {**texts, "text_hash": f"sha256:{digest}"}
        if self.decoding is None:
            return source
        return source | {"token_ids": " ".join(map(str, self.encoder[example].ids)), "decoding": self.decoding}


def encode(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, limit: int | None, truncate: bool, encoder_decoder: bool
) -> Batch:
    """Encode single texts or pairs; in an encoder-decoder the decoder reads the second text."""
    if not texts:
        raise InputError("expected at least one text, got none.")
    if pairs is not None and len(pairs) != len(texts):
        raise InputError(f"expected as many second texts as first ones, got {len(pairs)} and {len(texts)}.")
    if not all(text.strip() for text in (*texts, *(pairs or ()))):
        raise InputError("expected a text, got an empty one; pass at least one word.")
    if not encoder_decoder or pairs is None:
        inputs, encoder = encode_side(tokenizer, texts, pairs, limit, truncate)
        return Batch(inputs, encoder, None, list(texts), None if pairs is None else list(pairs))
    inputs, encoder = encode_side(tokenizer, texts, None, limit, truncate)
    decoder_inputs, decoder = encode_side(tokenizer, pairs, None, limit, truncate)
    inputs |= {f"decoder_{name}": decoder_inputs[name] for name in ("input_ids", "attention_mask")}
    return Batch(inputs, encoder, decoder, list(texts), list(pairs))


def encode_side(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, limit: int | None, truncate: bool
) -> tuple[dict[str, Tensor], list[Tokens]]:
    """Encode the texts that an encoder or a decoder reads: tensors padded on the right, and the tokens of each text."""
    for text in (*texts, *(pairs or ())):
        require_unicode(text)
    max_length = limit if truncate else None
    encodings = [encode_one(tokenizer, text, pairs[index] if pairs else None, max_length) for index, text in enumerate(texts)]
    ids = [encoding["input_ids"] for encoding in encodings]
    shortest, longest = min(map(len, ids)), max(map(len, ids))
    if limit is not None and longest > limit:
        raise TextTooLongError(
            f"expected at most {limit} tokens, which is all the model takes, got {longest}; shorten the text, or truncate it "
            f"with truncate=True (--truncate), or the texts of a corpus with max_length (--max-length)."
        )
    if shortest == 0:
        raise InputError("expected a text with at least one token, got one for which the tokenizer returns none.")
    warn_of_unknown_tokens(tokenizer, ids)
    inputs = {
        "input_ids": _pad(ids, longest, tokenizer.pad_token_id or 0),
        "attention_mask": _pad([[1] * len(row) for row in ids], longest, 0),
    }
    if "token_type_ids" in encodings[0]:
        inputs["token_type_ids"] = _pad([encoding["token_type_ids"] for encoding in encodings], longest, 0)
    return inputs, [tokens_of(tokenizer, encoding, pairs is not None) for encoding in encodings]


def encode_one(
    tokenizer: Any, text: str, pair: str | None, max_length: int | None = None, add_special_tokens: bool = True
) -> Any:
    """Encode one text or pair without padding, truncated to `max_length` tokens if given.

    A fast tokenizer stores whether it truncates and pads, and a call in another thread may change that before this one is done.
    Our calls take turns; where a call of the user interfered, a copy of the tokenizer is used instead.
    """
    settings = {
        "truncation": max_length is not None,
        "max_length": max_length,
        "return_special_tokens_mask": True,
        "add_special_tokens": add_special_tokens,
    }
    with _TOKENIZING:
        encoding = tokenize(tokenizer, text, pair, **settings)
    if _has_settings_of_another_call(encoding, max_length):
        encoding = tokenize(copy.deepcopy(tokenizer), text, pair, **settings)
    return encoding


def _has_settings_of_another_call(encoding: Any, max_length: int | None) -> bool:
    """Whether tokens were padded, or truncated to another length than `max_length`."""
    if not encoding.is_fast:
        return False
    tokens = encoding.encodings[0]
    too_short = len(tokens) != max_length and bool(tokens.overflowing)
    return 0 in tokens.attention_mask or too_short or (max_length is not None and len(tokens) > max_length)


def tokenize(tokenizer: Any, text: str, pair: str | None = None, **options: Any) -> Any:
    """Call a tokenizer on a text or a pair; one from a broken file can fail on some texts only."""
    with model_errors("the tokenizer cannot read a text"):
        return tokenizer(text, pair, verbose=False, **options)


def _pad(rows: list[list[int]], length: int, value: int) -> Tensor:
    return torch.tensor([row + [value] * (length - len(row)) for row in rows])


def tokens_of(tokenizer: Any, encoding: Any, paired: bool = False) -> Tokens:
    """The tokens of one text or pair."""
    ids = encoding["input_ids"]
    segments = encoding.sequence_ids() if paired and encoding.is_fast else [0] * len(ids)
    for position, segment in enumerate(segments):  # special tokens belong to the segment that they close
        if segment is None:
            segments[position] = segments[position - 1] if position else 0
    return Tokens(
        texts=readable_tokens(tokenizer, ids),
        ids=tuple(ids),
        special=tuple(bool(flag) for flag in encoding["special_tokens_mask"]),
        segments=tuple(segments),
        word_ids=tuple(encoding.word_ids()) if encoding.is_fast else None,
        spans=tuple(encoding.encodings[0].offsets) if encoding.is_fast else None,
    )


def readable_tokens(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Tokens as a person writes them."""
    texts = tokenizer.convert_ids_to_tokens(ids)
    if None in texts:
        raise InputError(
            f"expected a tokenizer with a text for every token, got none for token id {ids[texts.index(None)]}; load "
            "the tokenizer that belongs to the model."
        )
    return tuple(_readable(tokenizer, token) for token in texts)


def _readable(tokenizer: Any, token: str | bytes) -> str:
    """A token as a person writes it: byte-level alphabets decoded, a leading space shown as ▁."""
    text = token.decode(errors="replace") if isinstance(token, bytes) else token
    if text.startswith(("Ġ", "▁")):
        return "▁" + tokenizer.convert_tokens_to_string([text]).strip() if len(text) > 1 else "▁"
    return text


def warn_of_unknown_tokens(tokenizer: Any, texts: Iterable[Sequence[int]]) -> None:
    """Warn if more than half of the tokens of a text, given as token ids, are unknown; special tokens do not count."""
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown in [getattr(tokenizer, f"{role}_token_id", None) for role in NOT_UNKNOWN]:
        return
    special = {*tokenizer.all_special_ids} - {unknown}
    for ids in texts:
        is_unknown = [token == unknown for token in ids if token not in special]
        if 2 * sum(is_unknown) > len(is_unknown):
            # The message is the same for every text, so that Python shows it once.
            warnings.warn(
                f"more than half of the tokens of a text are unknown to the tokenizer, so the model reads {tokenizer.unk_token} "
                "in their place; check that the tokenizer belongs to the model, and that it knows the language.",
                ModelWarning,
                stacklevel=2,
            )
            return


def loses_a_long_word(tokenizer: Any, tokens: Tokens, text: str, pair: str | None = None) -> bool:
    """Whether the tokenizer replaced a word by one unknown token because the word is too long.

    A line of 200,000 letters then becomes three tokens, [CLS] [UNK] [SEP]: it fits into any model, but its content is lost.
    """
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown not in tokens.ids:
        return False
    backend = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    longest = getattr(backend, "max_input_chars_per_word", LONGEST_WORD)
    if tokens.spans is None:
        return any(len(word) > longest for word in f"{text} {pair or ''}".split())
    return any(stop - start > longest for token, (start, stop) in zip(tokens.ids, tokens.spans, strict=True) if token == unknown)


def check_ids(batch: Batch, network: Any, tokenizer: Any) -> Batch:
    """Return the batch if the network has an embedding for each of its tokens and segments."""
    check_range(network, tokenizer, [tokens.ids for tokens in batch.encoder])
    if batch.decoder is not None:
        check_range(network.get_decoder(), tokenizer, [tokens.ids for tokens in batch.decoder])
    segments = getattr(getattr(network, "embeddings", None), "token_type_embeddings", None)
    largest = int(batch.inputs["token_type_ids"].max()) if "token_type_ids" in batch.inputs else 0
    if isinstance(segments, nn.Embedding) and largest >= segments.num_embeddings:
        raise InputError(
            f"expected one text, since {type(network).__name__} has {segments.num_embeddings} token types, got a tokenizer that "
            f"marks a second text as type {largest}; load the tokenizer that belongs to the model, or leave out the second text."
        )
    return batch


def check_range(network: Any, tokenizer: Any, texts: Iterable[Sequence[int]]) -> None:
    """Reject token ids for which a network has no embedding."""
    try:
        table = network.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return
    largest = max(map(max, texts), default=0)
    if isinstance(table, nn.Embedding) and largest >= table.num_embeddings:
        raise InputError(
            f"expected token ids below {table.num_embeddings}, the number of embeddings of {type(network).__name__}, got "
            f"{largest} for {tokenizer.convert_ids_to_tokens(largest)!r}; load the tokenizer that belongs to the model."
        )
