"""From texts to the tensors that a model takes, and back to the tokens of each text."""

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from identiformer.errors import InputError
from identiformer.models.encoding.token_checks import check_range, tokenize, warn_of_unknown_tokens
from identiformer.trace import Tokens

_TURNS = Lock()


@dataclass(frozen=True)
class Batch:
    """Encoded texts: inputs padded on the right, and the tokens of each text without padding."""

    inputs: dict[str, Tensor]
    encoder: list[Tokens]
    decoder: list[Tokens] | None
    texts: list[str]
    pairs: list[str] | None

    @property
    def examples(self) -> int:
        return len(self.texts)

    @property
    def longest(self) -> int:
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
        """The texts, and a hash of them."""
        texts = {"text": self.texts[example]} | ({"pair": self.pairs[example]} if self.pairs else {})
        digest = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()
        return {**texts, "text_hash": f"sha256:{digest}"}


def encode(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, limit: int | None, truncate: bool, encoder_decoder: bool
) -> Batch:
    """Tokenize single texts or pairs; in an encoder-decoder the second text goes to the decoder."""
    if not texts:
        raise InputError("expected at least one text, got none.")
    if pairs is not None and len(pairs) != len(texts):
        raise InputError(f"expected as many second texts as first ones, got {len(pairs)} and {len(texts)}.")
    for text in (*texts, *(pairs or ())):
        if not text.strip():
            raise InputError("expected a text, got an empty one; give at least one word.")
    beside = None if encoder_decoder else pairs
    inputs, encoder = encode_side(tokenizer, texts, beside, limit, truncate)
    decoder = None
    if encoder_decoder and pairs is not None:
        decoder_inputs, decoder = encode_side(tokenizer, pairs, None, limit, truncate)
        inputs |= {
            "decoder_input_ids": decoder_inputs["input_ids"],
            "decoder_attention_mask": decoder_inputs["attention_mask"],
        }
    return Batch(inputs, encoder, decoder, list(texts), None if pairs is None else list(pairs))


def encode_side(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, limit: int | None, truncate: bool
) -> tuple[dict[str, Tensor], list[Tokens]]:
    """What one side of a model reads: tensors padded on the right, and the tokens of each text."""
    for text in (*texts, *(pairs or ())):
        _require_unicode(text)
    cut_at = limit if truncate else None
    encodings = [encode_one(tokenizer, text, pairs[number] if pairs else None, cut_at) for number, text in enumerate(texts)]
    lengths = [len(encoding["input_ids"]) for encoding in encodings]
    if limit is not None and max(lengths) > limit:
        raise InputError(
            f"expected at most {limit} tokens, which is all the model takes, got {max(lengths)}; shorten the text, or cut it "
            f"with truncate=True (--truncate), or the texts of a corpus with max_length (--max-length)."
        )
    if min(lengths) == 0:
        raise InputError("expected a text with at least one token, got one that the tokenizer leaves empty.")
    warn_of_unknown_tokens(tokenizer, (encoding["input_ids"] for encoding in encodings))
    longest = max(lengths)
    padding = tokenizer.pad_token_id or 0
    inputs = {
        "input_ids": _pad([encoding["input_ids"] for encoding in encodings], longest, padding),
        "attention_mask": _pad([[1] * length for length in lengths], longest, 0),
    }
    if "token_type_ids" in encodings[0]:
        inputs["token_type_ids"] = _pad([encoding["token_type_ids"] for encoding in encodings], longest, 0)
    return inputs, [_tokens(tokenizer, encoding, pairs is not None) for encoding in encodings]


def _require_unicode(text: str) -> None:
    """Raise unless a text can be written in UTF-8, which half of a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"expected a text in Unicode, got half of a surrogate pair ({text[error.start]!a}) at character {error.start}; "
            "read the text as UTF-8, or replace what is not."
        ) from None


def encode_one(tokenizer: Any, text: str, pair: str | None, cut_at: int | None = None) -> Any:
    """The encoding of one text or pair, not padded, and cut to so many tokens or not at all.

    A fast tokenizer keeps within itself whether it cuts and pads, which a call in another thread may change before this one has
    its tokens. Ours take turns; where the user's own use of the tokenizer shows in the tokens, a copy is asked instead.
    """
    settings = {"truncation": cut_at is not None, "max_length": cut_at, "return_special_tokens_mask": True}
    with _TURNS:
        encoding = tokenize(tokenizer, text, pair, **settings)
    if _is_of_another_call(encoding, cut_at):
        encoding = tokenize(copy.deepcopy(tokenizer), text, pair, **settings)
    return encoding


def _is_of_another_call(encoding: Any, cut_at: int | None) -> bool:
    """Whether tokens were padded, or cut elsewhere than they should be."""
    if not encoding.is_fast:
        return False
    tokens = encoding.encodings[0]
    cut_too_short = len(tokens) != cut_at and bool(tokens.overflowing)
    return 0 in tokens.attention_mask or cut_too_short or (cut_at is not None and len(tokens) > cut_at)


def check_ids(batch: Batch, network: Any, tokenizer: Any) -> Batch:
    """The batch itself, if the network has an embedding for every token in it and every segment."""
    check_range(network, tokenizer, [tokens.ids for tokens in batch.encoder])
    if batch.decoder is not None:
        check_range(network.get_decoder(), tokenizer, [tokens.ids for tokens in batch.decoder])
    segments = getattr(getattr(network, "embeddings", None), "token_type_embeddings", None)
    most = int(batch.inputs["token_type_ids"].max()) if "token_type_ids" in batch.inputs else 0
    if isinstance(segments, nn.Embedding) and most >= segments.num_embeddings:
        raise InputError(
            f"expected one text, since {type(network).__name__} has {segments.num_embeddings} token types, got a tokenizer that "
            f"marks a second text as type {most}; load the tokenizer that belongs to the model, or leave the second text out."
        )
    return batch


def _pad(rows: list[list[int]], length: int, value: int) -> Tensor:
    return torch.tensor([row + [value] * (length - len(row)) for row in rows])


def _tokens(tokenizer: Any, encoding: Any, paired: bool) -> Tokens:
    ids = encoding["input_ids"]
    segments = encoding.sequence_ids() if paired and encoding.is_fast else [0] * len(ids)
    last = 0
    filled = []
    for segment in segments:  # special tokens belong to the segment that they close
        last = last if segment is None else segment
        filled.append(last)
    texts = tokenizer.convert_ids_to_tokens(ids)
    if None in texts:
        raise InputError(
            f"expected a tokenizer with a text for every token, got none for token id {ids[texts.index(None)]}; load "
            "the tokenizer that belongs to the model."
        )
    return Tokens(
        texts=tuple(_readable(tokenizer, token) for token in texts),
        ids=tuple(ids),
        special=tuple(bool(flag) for flag in encoding["special_tokens_mask"]),
        segments=tuple(filled),
        words=tuple(encoding.word_ids()) if encoding.is_fast else None,
        spans=tuple(encoding.encodings[0].offsets) if encoding.is_fast else None,
    )


def _readable(tokenizer: Any, token: str | bytes) -> str:
    """A token as a person writes it: byte-level alphabets decoded, a leading space shown as it is in the vocabulary."""
    text = token.decode(errors="replace") if isinstance(token, bytes) else token
    if text.startswith(("Ġ", "▁")):
        return "▁" + tokenizer.convert_tokens_to_string([text]).strip() if len(text) > 1 else "▁"
    return text
