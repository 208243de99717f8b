"""A record with named texts: an object of JSON Lines, or a row of a dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

from identiformer.errors import InputError
from identiformer.texts.example import Example, read_example
from identiformer.texts.readers.columns import tag_column


def read_record(record: Mapping[str, Any], names: Sequence[str], where: str) -> Example:
    """The example that stands under these names, with tags where the record has them."""
    texts = [record[name] for name in names]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f"expected texts that are not empty in {where}, got {', '.join(map(repr, texts))[:60]}.")
    tags = [record.get(tag_column(name)) for name in names]
    for name, own in zip(names, tags, strict=True):
        if not isinstance(own, str | None):
            raise InputError(f"expected tags separated by spaces under {tag_column(name)!r} in {where}, got {str(own)[:60]}.")
    return read_example([text.strip() for text in texts], [None if own is None else own.strip() for own in tags], where)
