"""Tokens along an axis."""

from typing import Any

MOST_LABELS = 36  # token labels that stay legible on one axis of a map


def label_tokens(axis: Any, tokens: list[str], rotation: int, most: int = MOST_LABELS) -> None:
    """Token labels, every one where they fit; token text is data, never a formula."""
    step = -(-len(tokens) // most)
    places = list(range(0, len(tokens), step))
    axis.set_ticks(places, [tokens[place] for place in places], rotation=rotation, fontsize=8, parse_math=False)
